"""Load the published numbers: all tables, the figures without a table, and a few from the text."""

from __future__ import annotations

import csv
from functools import lru_cache
from importlib import resources
from typing import NamedTuple


class Published(NamedTuple):
    """One published number.

    Attributes:
        standard_error: over the paper's seeds, for numbers from a table; otherwise ``None``.
        band: the two-standard-deviation band that a figure shows; ``None`` otherwise.
    """

    experiment: str
    metric: str
    model: str
    shift: float
    mean: float
    standard_error: float | None
    band: tuple[float, float] | None


def published(experiment: str) -> list[Published]:
    """Return the published numbers of an experiment, e.g. ``"rotated_mnist"``; empty if none."""
    return [row for row in _all() if row.experiment == experiment]


@lru_cache(maxsize=1)
def _all() -> tuple[Published, ...]:
    tables = (
        Published(
            row["experiment"],
            row["metric"],
            row["model"],
            float(row["shift"]),
            float(row["mean"]),
            float(row["standard_error"]),
            None,
        )
        for row in _rows("tables.csv")
    )
    figures = (
        Published(
            row["figure"],
            row["metric"],
            row["series"],
            float(row["x"]),
            float(row["mean"]),
            None,
            (float(row["lower"]), float(row["upper"])),
        )
        for row in _rows("figures.csv")
    )
    text = (
        Published(
            row["experiment"],
            row["metric"],
            row["model"],
            float(row["shift"]),
            float(row["mean"]),
            None,
            None,
        )
        for row in _rows("text.csv")
    )
    return (*tables, *figures, *text)


def _rows(name: str) -> list[dict[str, str]]:
    source = resources.files("felbo.paper").joinpath("tables", name)
    with source.open("r", encoding="utf-8") as file:
        return list(csv.DictReader(file))
