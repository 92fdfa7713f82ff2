"""What the reliability diagram shows, read back from matplotlib."""

import importlib

import numpy as np
import pytest

from felbo.evaluation import Reliability
from felbo.report import draw_reliability

FOUND = Reliability((0.5, 0.8), (0.6, 1.0), (3, 1), (0.55, 0.9), (0.25, 1.0))


@pytest.fixture
def figure(monkeypatch):
    kept = []
    module = importlib.import_module("felbo.report.reliability")
    monkeypatch.setattr(module, "save", lambda figure, stem: kept.append(figure))
    draw_reliability({"a": FOUND, "b": FOUND}, "x", title="T")
    return kept[0]


def test_bars_are_accuracies_over_their_bins(figure):
    assert len(figure.axes) == 4
    bars = figure.axes[0].patches
    assert [bar.get_x() for bar in bars] == [0.5, 0.8]
    assert [bar.get_width() for bar in bars] == pytest.approx([0.1, 0.2])
    assert [bar.get_height() for bar in bars] == [0.25, 1.0]


def test_lines_lead_from_accuracy_to_confidence(figure):
    segments = figure.axes[1].collections[0].get_segments()
    expected = [[[0.55, 0.25], [0.55, 0.55]], [[0.9, 1.0], [0.9, 0.9]]]
    np.testing.assert_allclose(segments, expected)


def test_shares_of_items_and_the_error_in_the_title(figure):
    assert [bar.get_height() for bar in figure.axes[2].patches] == [0.75, 0.25]
    error = 0.75 * 0.3 + 0.25 * 0.1
    assert figure.axes[0].get_title() == f"a  (ECE {error:.3f})"


def test_files_are_written(tmp_path):
    draw_reliability({"a": FOUND}, str(tmp_path / "diagram"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["diagram.png", "diagram.svg"]


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="no diagram"):
        draw_reliability({}, "x")
