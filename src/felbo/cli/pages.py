"""`felbo page`: fill the generated parts of a Markdown page from the tables of studies."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

console = Console()


def page(
    path: Annotated[Path, typer.Argument(help="Markdown page, e.g. docs/cifar.md.")],
) -> None:
    """Fill every part '<!-- begin: felbo compare NAME --results DIR -->' of a page."""
    from felbo._files import write_atomically

    text = path.read_text(encoding="utf-8")
    write_atomically(path, filled(text, Path()))
    console.print(f"Page: {path}", soft_wrap=True)


def filled(text: str, root: Path) -> str:
    """Return a page with its parts made anew.

    Args:
        text: of the page.
        root: the folder to which those of the tables are relative.
    """
    from felbo.paper.markdown import report
    from felbo.paper.results import read_summaries
    from felbo.report.page import parts, replace_part
    from felbo.studies.catalogue import STUDIES

    for command in parts(text):
        if not command.startswith("felbo compare "):
            continue
        _, _, name, _, folder = shlex.split(command)
        table = root / folder / f"{STUDIES[name].key}.csv"
        summaries = read_summaries(table) if table.exists() else []
        text = replace_part(text, command, report(STUDIES[name], summaries))
    return text
