"""`felbo export`: the model of a run as a file that runs without felbo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from felbo.cli.options import ConfigOption, RunArgument


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Option(help=".pt2 (torch.export) or .onnx file to write.")] = Path(
        "model.pt2"
    ),
    config: ConfigOption = None,
) -> None:
    """Write the model of a run as a graph that runs without felbo.

    It maps float64 numbers [B, D], in the order of the table's columns, or float32 images
    [B, C, H, W] with values 0 to 255, to probabilities [B, K] and epistemic uncertainty [B]. It is
    compared with the original before it is written.

    In use:

      felbo export runs/patients --out patients.pt2

      felbo export runs/photos --out photos.onnx
    """
    from felbo._files import require_file
    from felbo.workflow.exporting import export_run

    require_file(out)
    columns = export_run(run, out)
    Console().print(f"Model: {escape(str(out))}", soft_wrap=True)
    if columns:
        Console().print(f"Columns: {escape(', '.join(columns))}", soft_wrap=True)
