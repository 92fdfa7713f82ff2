"""Common style of all figures, with a palette for colour-blind readers."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Literal

import matplotlib
from matplotlib.figure import Figure

from felbo._files import write_atomically

# Okabe and Ito (2008), "Color Universal Design": distinguishable with every kind of colour vision.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")

STYLE = {
    "figure.dpi": 120,
    "savefig.bbox": "tight",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    # Fixed ids inside an SVG file, so that the same figure gives the same bytes.
    "svg.hashsalt": "felbo",
    "svg.fonttype": "none",
}


def save(figure: Figure, stem: str) -> None:
    """Write ``stem.png`` and ``stem.svg``, each atomically."""
    png, svg = io.BytesIO(), io.BytesIO()
    # The style has settings for saving too, so it must be active here as well as in new_figure.
    with matplotlib.rc_context(STYLE):
        figure.savefig(png, format="png")
        figure.savefig(svg, format="svg", metadata={"Date": None})
    write_atomically(Path(f"{stem}.png"), png.getvalue())
    write_atomically(Path(f"{stem}.svg"), svg.getvalue())


def new_figure(
    rows: int = 1,
    columns: int = 1,
    *,
    figsize: tuple[float, float],
    squeeze: bool = True,
    sharey: bool = False,
    layout: Literal["constrained"] | None = None,
) -> tuple[Any, Any]:
    """Return a figure in the common style, and its axes.

    Created without pyplot, which keeps every figure alive until it is closed and has one backend
    per process: the caller's backend is not changed, and no display is needed.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=figsize, layout=layout)
        return figure, figure.subplots(rows, columns, squeeze=squeeze, sharey=sharey)
