"""One look for all figures: colours that a colour-blind reader can tell apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

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
    # Fixed names inside an SVG file make the same figure give the same bytes.
    "svg.hashsalt": "felbo",
    "svg.fonttype": "none",
}


def save(figure: Any, stem: str) -> None:
    """Write ``stem.png`` and ``stem.svg`` and close the figure."""
    Path(stem).parent.mkdir(parents=True, exist_ok=True)
    # The style speaks of saving too, so it must hold here as it does in new_figure.
    with matplotlib.rc_context(STYLE):
        figure.savefig(f"{stem}.png")
        figure.savefig(f"{stem}.svg", metadata={"Date": None})
    matplotlib.pyplot.close(figure)


def new_figure(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return ``plt.subplots(...)`` in the common style, with a backend that needs no screen."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(*args, **kwargs)
    return figure, axes
