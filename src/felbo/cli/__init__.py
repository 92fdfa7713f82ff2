"""The command line."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from felbo.cli import data, evaluate, experiments, export, predict, report, train
from felbo.cli.demo import demo
from felbo.cli.pages import page
from felbo.errors import FelboError
from felbo.training import TrainingInterrupted

# Exit codes; 2 is that of wrong usage.
FIXABLE, DEFECT, INTERRUPTED = 1, 3, 130
HINT = "`felbo --debug …` shows where this came from."


class _Commands(TyperGroup):
    """Command group that prints errors without a traceback, unless asked for it."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except FelboError as error:  # which the user can fix: its message says how
            if ctx.params.get("debug"):
                raise
            raise _refusal(str(error), FIXABLE) from error
        except TrainingInterrupted as error:
            # Experiments go on by themselves.
            hint = " With --resume." if ctx.invoked_subcommand == "train" else ""
            raise _refusal(f"{error}{hint}", INTERRUPTED) from error
        except OSError as error:  # such as a full disk, or a file that may not be read
            if ctx.params.get("debug") or isinstance(error, BrokenPipeError):
                raise
            raise _refusal(f"{error}. {HINT}", FIXABLE) from error
        except Exception as error:
            # Errors of usage and the end of a command have handlers of their own.
            if ctx.params.get("debug") or _is_of_the_framework(error):
                raise
            raise _refusal(f"{type(error).__name__}: {error}\n{HINT}", DEFECT) from error


def _is_of_the_framework(error: Exception) -> bool:
    return type(error).__module__.split(".")[0] in ("click", "typer")


def _refusal(message: str, code: int) -> typer.Exit:
    Console(stderr=True).print(f"[bold red]{escape(message)}[/]", soft_wrap=True)
    return typer.Exit(code)


def _show_version(wanted: bool) -> None:
    if wanted:
        from felbo import __version__

        typer.echo(f"felbo {__version__}")
        raise typer.Exit


def main(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """A prior over predictions for any PyTorch classifier.

    Start with `felbo train data.csv --target COLUMN --out run`.

    Exit codes: 0 done, 1 something to put right, 2 wrong usage, 3 a defect in felbo,
    130 interrupted.
    """


app = typer.Typer(
    name="felbo",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.callback()(main)
app.command()(train.train)
app.command()(evaluate.evaluate)
app.command()(predict.predict)
app.command()(report.report)
app.command()(export.export)
app.command()(demo)
app.add_typer(data.app, name="data")
app.command()(experiments.reproduce)
app.command()(experiments.compare)
app.command()(page)
