"""Curves over steps or seconds on a logarithmic axis, with percentiles over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from felbo.report.curves import Value
from felbo.report.style import PALETTE, new_figure, save

# Different line styles, so that curves that coincide stay visible.
LINES = ("-", "--", "-.", ":")


class Spread(Value, Protocol):
    """A point with its percentiles over seeds; its shift is the step."""

    @property
    def p10(self) -> float:
        """10th percentile."""

    @property
    def median(self) -> float:
        """50th percentile."""

    @property
    def p90(self) -> float:
        """90th percentile."""


def draw_percentiles(
    points: Sequence[Spread],
    stem: str,
    *,
    metric: str,
    ylabel: str,
    title: str,
    clock: str | None = None,
) -> None:
    """Draw the median and the band from 10th to 90th percentile; write ``stem.png``, ``stem.svg``.

    Args:
        points: percentiles over seeds at each step.
        stem: path of the figure without its ending.
        metric: the metric to draw, given as log₁₀; the axis shows 10 to its power.
        ylabel: label of the vertical axis.
        title: heading.
        clock: metric that holds the time of each step; with it a second panel shows the same
            curves over the median time.
    """
    panels = [("steps", None)] if clock is None else [("steps", None), ("seconds", clock)]
    size = (5.2 * len(panels), 4.0)
    figure, axes = new_figure(1, len(panels), figsize=size, squeeze=False, sharey=True)
    models = list(dict.fromkeys(p.model for p in points))
    for axis, (xlabel, times) in zip(axes[0], panels, strict=True):
        for model, colour, line in zip(models, PALETTE, LINES, strict=False):
            series = sorted(
                (p for p in points if p.model == model and p.metric == metric),
                key=lambda p: p.shift,
            )
            moments = {p.shift: p.median for p in points if p.model == model and p.metric == times}
            x = [moments[p.shift] if times else p.shift for p in series]
            _draw_band(axis, x, series, label=model, color=colour, linestyle=line)
        axis.set(xlabel=xlabel, yscale="log")
    axes[0][0].set(ylabel=ylabel)
    axes[0][0].legend()
    figure.suptitle(f"{title}  (median, 10th to 90th percentile over seeds)")
    figure.tight_layout()
    save(figure, stem)


def _draw_band(axis: Any, x: Sequence[float], series: Sequence[Spread], **style: str) -> None:
    axis.plot(x, [10.0**p.median for p in series], **style)
    low, high = [10.0**p.p10 for p in series], [10.0**p.p90 for p in series]
    axis.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)
