"""Pictures: everything that draws."""

from felbo.report.curves import draw_curves

__all__ = ["draw_curves"]
