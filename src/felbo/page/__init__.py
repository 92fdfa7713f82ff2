"""The report of a run: one HTML page that opens without a network."""

from felbo.page.writing import page, write_report

__all__ = ["page", "write_report"]
