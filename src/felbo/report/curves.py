"""Curves over a shift, with bands of two standard deviations over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from felbo.report.style import PALETTE, new_figure, save

LABELS = {
    "accuracy": "accuracy (%)",
    "log_likelihood": "log-likelihood (nats)",
    "ece": "calibration error",
}


class Value(Protocol):
    """A point on a curve: a published value, or the mean of measured ones."""

    @property
    def metric(self) -> str:
        """Name of the metric."""

    @property
    def model(self) -> str:
        """The series it belongs to."""

    @property
    def shift(self) -> float:
        """Position on the horizontal axis."""

    @property
    def mean(self) -> float:
        """Position on the vertical axis."""


class Measured(Value, Protocol):
    """A point with its standard deviation over seeds."""

    @property
    def deviation(self) -> float:
        """Standard deviation; NaN for a single seed."""


Style = Mapping[str, Any]


def by_position(models: Sequence[str]) -> dict[str, Style]:
    """Assign the colours of the palette to the series, in order."""
    return {model: {"color": PALETTE[i % len(PALETTE)]} for i, model in enumerate(models)}


def by_kind_and_way(
    models: Sequence[str], kinds: Sequence[str], ways: Sequence[str]
) -> dict[str, Style]:
    """Assign a line style to each kind of model, and a colour to each way of training it.

    Args:
        models: names ``"kind way"``, or ``"kind"`` for the way ``""``.
        kinds: at most four.
        ways: at most as many as the palette has colours; the last one gets its first colour.
    """
    colours = dict(zip(reversed(ways), PALETTE, strict=False))
    lines = dict(zip(kinds, ("-", "--", ":", "-."), strict=False))
    return {
        name: {
            "color": colours[name.removeprefix(kind).strip()],
            "linestyle": lines[kind],
            "marker": ".",
        }
        for name in models
        for kind in kinds
        if name.startswith(kind)
    }


def draw_curves(
    points: Sequence[Measured],
    stem: str,
    *,
    metrics: Sequence[str],
    xlabel: str,
    title: str,
    published: Sequence[Value] = (),
    styles: Callable[[Sequence[str]], Mapping[str, Style]] = by_position,
    xscale: str = "linear",
    log_metrics: Sequence[str] = (),
    labels: Mapping[str, str] = LABELS,
) -> None:
    """Draw one panel per metric and write ``stem.png`` and ``stem.svg``.

    Lines are means over seeds, bands two standard deviations to both sides, circles published
    values: filled for a series that is drawn solid beside a dashed one. ``log_metrics`` get a
    logarithmic vertical axis. On a logarithmic horizontal axis every shift has a tick, since there
    are few of them.
    """
    shown = [metric for metric in metrics if any(p.metric == metric for p in points)]
    figure, axes = new_figure(1, len(shown), figsize=(4.6 * len(shown), 4.2), squeeze=False)
    look = styles(list(dict.fromkeys(p.model for p in points)))
    solid = {model for model, style in look.items() if style.get("linestyle", "-") == "-"}
    filled = solid if len(solid) < len(look) else set()
    for axis, metric in zip(axes[0], shown, strict=True):
        for model, style in look.items():
            series = [p for p in points if p.metric == metric and p.model == model]
            if series:
                _draw_series(axis, series, model, style)
            dots = [p for p in published if p.metric == metric and p.model == model]
            axis.plot(
                [p.shift for p in dots],
                [p.mean for p in dots],
                linestyle="none",
                marker="o",
                markersize=3.5,
                markerfacecolor=style["color"] if model in filled else "none",
                color=style["color"],
            )
        axis.set(xlabel=xlabel, ylabel=labels.get(metric, metric.replace("_", " ")), xscale=xscale)
        if xscale == "log":
            shifts = sorted({p.shift for p in (*points, *published)})
            axis.set_xticks(shifts, [f"{shift:g}" for shift in shifts], minor=False)
            axis.set_xticks([], minor=True)
        if metric in log_metrics:
            axis.set_yscale("log")
    handles, names = axes[0][0].get_legend_handles_labels()
    note = "circles: published" + (", filled for solid lines" if filled else "")
    figure.suptitle(f"{title}  ({note})" if published else title)
    figure.tight_layout()
    columns = min(len(names), 2 * len(shown))
    figure.legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=columns)
    save(figure, stem)


def _draw_series(axis: Any, series: Sequence[Measured], model: str, style: Style) -> None:
    series = sorted(series, key=lambda p: p.shift)
    x, y = [p.shift for p in series], [p.mean for p in series]
    axis.plot(x, y, label=model, **style)
    band = [0.0 if math.isnan(p.deviation) else 2.0 * p.deviation for p in series]
    low = [m - b for m, b in zip(y, band, strict=True)]
    high = [m + b for m, b in zip(y, band, strict=True)]
    axis.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)
