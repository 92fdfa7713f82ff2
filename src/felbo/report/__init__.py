"""Figures, drawn with matplotlib."""

from felbo.report.counts import draw_counts
from felbo.report.curves import draw_curves
from felbo.report.percentiles import draw_percentiles
from felbo.report.reliability import draw_reliability
from felbo.report.strength import draw_strength

__all__ = [
    "draw_counts",
    "draw_curves",
    "draw_percentiles",
    "draw_reliability",
    "draw_strength",
]
