"""Reliability diagram: accuracy over confidence, with the fraction of items per bin below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from felbo.errors import SettingError
from felbo.evaluation import Reliability
from felbo.report.style import PALETTE, new_figure, save


def draw_reliability(diagrams: Mapping[str, Reliability], stem: str, *, title: str = "") -> None:
    """Draw a panel per diagram and write ``stem.png`` and ``stem.svg``.

    Bars are the accuracy of a bin, and a line from their top leads to its mean confidence: the
    calibration error is the mean length of these lines. Points below the diagonal are
    overconfident. The strip below shows the share of items in each bin.

    Args:
        diagrams: name → result of :func:`felbo.evaluation.reliability`.
        stem: path of the figure without its ending.
        title: heading.
    """
    if not diagrams:
        raise SettingError("There is no diagram to draw: pass name → reliability.")
    size = (3.6 * len(diagrams), 4.8)
    figure, axes = new_figure(2, len(diagrams), figsize=size, squeeze=False, layout="constrained")
    axes[0][0].get_gridspec().set_height_ratios([4, 1])
    for column, (name, found) in enumerate(diagrams.items()):
        _draw_gaps(axes[0][column], found, f"{name}  (ECE {found.ece:.3f})".strip())
        _draw_shares(axes[1][column], found)
    axes[0][0].set(ylabel="accuracy")
    axes[1][0].set(ylabel="share of items")
    axes[0][0].legend(loc="upper left", frameon=False)
    figure.suptitle(title)
    save(figure, stem)


def _draw_gaps(axis: Any, found: Reliability, title: str) -> None:
    widths = [high - low for low, high in zip(found.low, found.high, strict=True)]
    style = {
        "align": "edge",
        "color": PALETTE[0],
        "alpha": 0.55,
        "edgecolor": "white",
        "linewidth": 0.5,
    }
    axis.bar(found.low, found.accuracy, widths, **style)
    axis.plot([0, 1], [0, 1], color=PALETTE[6], linewidth=0.8, linestyle="--")
    axis.vlines(found.confidence, found.accuracy, found.confidence, color=PALETTE[1], linewidth=1.5)
    label = {"label": "mean confidence", "color": PALETTE[1], "linestyle": "none", "marker": "o"}
    axis.plot(found.confidence, found.confidence, markersize=4, **label)
    axis.set(xlim=(0, 1), ylim=(0, 1), title=title)


def _draw_shares(axis: Any, found: Reliability) -> None:
    widths = [high - low for low, high in zip(found.low, found.high, strict=True)]
    shares = [count / sum(found.count) for count in found.count]
    axis.bar(
        found.low, shares, widths, align="edge", color=PALETTE[0], edgecolor="white", linewidth=0.5
    )
    axis.set(xlim=(0, 1), xlabel="confidence")
