"""The command line."""

from __future__ import annotations

from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from felbo._files import OutputFolderError
from felbo.cli import data, experiments
from felbo.cli.demo import demo
from felbo.cli.pages import page
from felbo.data import CorruptDataError, DownloadError, MissingDataError

# Errors that the user can fix: their messages say how, and a traceback would hide them.
EXPECTED = (CorruptDataError, DownloadError, MissingDataError, OutputFolderError)


class _Commands(TyperGroup):
    """Command group that prints expected errors without a traceback and exits with code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EXPECTED as error:
            Console(stderr=True).print(f"[bold red]{escape(str(error))}[/]", soft_wrap=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    name="felbo",
    help="A prior over predictions for any PyTorch classifier.",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.add_typer(data.app, name="data")
app.command()(experiments.reproduce)
app.command()(experiments.compare)
app.command()(page)
