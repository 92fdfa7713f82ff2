"""`felbo demo`: train on two moons and draw the predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the figure and its numbers.")] = Path("demo"),
    epochs: Annotated[
        int | None, typer.Option(help="Training steps per panel; 1000 unless given.", min=1)
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes, one torch thread each.", min=1)] = 2,
) -> None:
    """Train three kinds of model on two moons, without and with three priors over predictions."""
    from felbo.paper import two_moons  # imported lazily: slow, and not needed for --help

    console = Console()
    console.print(
        "Two moons: MAP, MC Dropout and Ensemble, conventional and with three priors over their "
        "predictions. About two minutes on two cores.",
        soft_wrap=True,
    )
    steps = two_moons.EPOCHS if epochs is None else epochs
    picture = two_moons.two_moons(out, jobs, epochs=steps, summary="summary.json")
    console.print(f"Picture: {picture} (and .svg)\nNumbers: {out / 'summary.json'}", soft_wrap=True)
