"""The command line."""

from __future__ import annotations

import typer

from felbo.cli import data, experiments
from felbo.cli.demo import demo

app = typer.Typer(
    name="felbo",
    help="A prior over predictions for any PyTorch classifier.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.add_typer(data.app, name="data")
app.command()(experiments.reproduce)
app.command()(experiments.compare)
