"""`felbo report`: a run as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from felbo.cli.options import ConfigOption, RunArgument


def report(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option(help="File to write. (default: report.html in the run)")
    ] = None,
    evaluation: Annotated[
        str | None, typer.Option(help="Evaluation to show. (default: that on held-out data)")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Write one HTML page about a run, which opens without a network.

    Scores with intervals, reliability, histograms in and out of distribution, risk and coverage,
    the confusion matrix, the most uncertain and the most confidently wrong examples, and training
    curves.

    In use:

      felbo report runs/patients

      felbo report runs/patients --evaluation later --out later.html
    """
    from felbo._files import require_file
    from felbo.page import write_report
    from felbo.workflow.folder import REPORT

    target = run / REPORT if out is None else out
    require_file(target)
    write_report(run, target, evaluation)
    Console().print(f"Report: {escape(str(target))}", soft_wrap=True)
