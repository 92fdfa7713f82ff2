"""Curves over a shift."""

from typing import NamedTuple

import pytest

from felbo.report import curves
from felbo.report.curves import by_kind_and_way


def test_a_colour_for_each_way_and_a_line_for_each_kind():
    names = ["A", "A x", "B", "B x"]
    look = by_kind_and_way(names, kinds=("A", "B"), ways=("", "x"))
    assert list(look) == names
    assert look["A"]["color"] == look["B"]["color"] != look["A x"]["color"]
    assert look["A"]["linestyle"] == look["A x"]["linestyle"] != look["B"]["linestyle"]


class Point(NamedTuple):
    metric: str
    model: str
    shift: float
    mean: float
    deviation: float = 0.0


@pytest.mark.parametrize("dashed", [True, False])
def test_published_circles_tell_solid_from_dashed_series(dashed, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(curves, "save", lambda figure, stem: figures.append(figure))
    points = [Point("ece", name, 0.0, 0.1) for name in ("A", "A x")]
    look = {"A": {"color": "red"}, "A x": {"color": "blue"}}
    if dashed:
        look["A"]["linestyle"] = "--"
    curves.draw_curves(
        points,
        str(tmp_path / "figure"),
        metrics=["ece"],
        xlabel="shift",
        title="Title",
        published=points,
        styles=lambda _: look,
    )
    circles = [line for line in figures[0].axes[0].lines if line.get_marker() == "o"]
    faces = {line.get_color(): line.get_markerfacecolor() for line in circles}
    assert faces == {"red": "none", "blue": "blue" if dashed else "none"}
    assert ("filled for solid lines" in figures[0].get_suptitle()) is dashed
