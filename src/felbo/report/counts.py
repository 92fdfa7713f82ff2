"""Bar chart of counts with logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from felbo.report.curves import Value
from felbo.report.style import PALETTE, new_figure, save


def draw_counts(
    points: Sequence[Value], stem: str, *, metric: str, xlabel: str, ylabel: str, title: str
) -> None:
    """Draw a histogram of integers and write ``stem.png`` and ``stem.svg``.

    Numbers up to 10 have a bar of their own; larger ones share a bar per doubling
    (11 … 20, 21 … 40, …), so that a long tail stays visible.
    """
    models = list(dict.fromkeys(p.model for p in points if p.metric == metric))
    sums: dict[tuple[str, int], float] = {}
    for p in points:
        if p.metric == metric:
            key = p.model, _bin(p.shift)
            sums[key] = sums.get(key, 0.0) + p.mean
    last = max(place for _, place in sums)
    figure, axis = new_figure(figsize=(7.0, 4.0))
    width = 0.8 / len(models)
    for i, (model, colour) in enumerate(zip(models, PALETTE, strict=False)):
        x = [place + (i - (len(models) - 1) / 2) * width for place in range(last + 1)]
        heights = [sums.get((model, place), 0.0) for place in range(last + 1)]
        axis.bar(x, heights, width, color=colour, label=model)
    axis.set(xlabel=xlabel, ylabel=ylabel, yscale="log", title=title)
    axis.set_xticks(range(last + 1), [_label(place) for place in range(last + 1)])
    axis.set_ylim(bottom=0.7)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=len(models))
    figure.tight_layout()
    save(figure, stem)


def _bin(value: float) -> int:
    return int(value) if value <= 10 else 10 + math.ceil(math.log2(value / 10))


def _label(place: int) -> str:
    if place <= 10:
        return str(place)
    low = 10 * 2 ** (place - 11)
    return f"{low + 1}–{2 * low}"
