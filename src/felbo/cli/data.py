"""`felbo data`: list, fetch, verify and corrupt the data sets."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from felbo.cli import corruptions
from felbo.cli.corruptions import RootOption
from felbo.data import (
    CorruptDataError,
    DatasetInfo,
    DownloadError,
    FileReport,
    FileState,
    data_root,
    fetch,
    source_info,
    verify,
)
from felbo.data.location import fetch_command
from felbo.data.registry import SOURCE_NAMES, Source

app = typer.Typer(help="List, fetch, verify and corrupt the data sets.", no_args_is_help=True)
app.command("corrupt")(corruptions.corrupt)
app.command("show-corruptions")(corruptions.show_corruptions)

STYLES = {FileState.GOOD: "green", FileState.BAD: "bold red", FileState.MISSING: "yellow"}


def known_name(name: str | None) -> str | None:
    """Typer callback that rejects names outside the registry."""
    if name is not None:
        try:
            source_info(name)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
    return name


@app.command("list")
def list_datasets(root: RootOption = None) -> None:
    """List the data sets with their size, and which files are present."""
    base = data_root(root)
    table = Table()
    for heading in ("name", "data set", "classes", "train / test", "image", "on disk", "files"):
        table.add_column(heading, no_wrap=heading == "name")
    for name in SOURCE_NAMES:
        table.add_row(*_list_row(source_info(name), base))
    console = Console()
    console.print(f"Data sets in {escape(str(base))}", soft_wrap=True)
    console.print(table)
    console.print("Fetch one with `felbo data fetch NAME`, check it with `felbo data verify NAME`.")


def _list_row(info: Source, base: Path) -> list[str]:
    paths = [base / info.folder / file.name for file in info.files]
    sizes = [path.stat().st_size for path in paths if path.is_file()]
    complete = len(sizes) == len(paths)
    counted = f"{len(sizes)} of {len(paths)}"
    described = ["–", "–", "–"]
    if isinstance(info, DatasetInfo):
        described = [
            str(len(info.class_names)),
            f"{info.num_train:,} / {info.num_test:,}",
            "×".join(map(str, info.image_shape)),
        ]
    return [
        info.name,
        info.title,
        *described,
        decimal(sum(sizes)) if sizes else f"– (download: {decimal(info.download_bytes)})",
        f"[green]{counted}[/green]" if complete else f"[yellow]{counted}[/yellow]",
    ]


@app.command("fetch")
def fetch_dataset(
    name: Annotated[
        str, typer.Argument(help=f"One of {', '.join(SOURCE_NAMES)}.", callback=known_name)
    ],
    root: RootOption = None,
) -> None:
    """Download the missing or bad files of a data set."""
    try:
        folder = fetch(name, root)
    except (DownloadError, CorruptDataError) as error:
        Console(stderr=True).print(f"[bold red]{escape(str(error))}[/bold red]", soft_wrap=True)
        raise typer.Exit(1) from error
    done = f"[green]{source_info(name).title} is complete[/green] in {escape(str(folder))}"
    Console().print(done, soft_wrap=True)


@app.command("verify")
def verify_datasets(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A data set; by default every data set with at least one file present.",
            callback=known_name,
        ),
    ] = None,
    root: RootOption = None,
) -> None:
    """Compare the md5 of each file with the published one; exit with 1 when one is bad."""
    console = Console()
    base = data_root(root)
    reports = {each: verify(each, base) for each in ([name] if name else SOURCE_NAMES)}
    if name is None:
        reports = {each: found for each, found in reports.items() if _is_here(found)}
        if not reports:
            console.print(
                f"No data set in {escape(str(base))}. Fetch one with `felbo data fetch NAME`."
            )
            return
    broken = [each for each, found in reports.items() if not _is_good(found)]
    for each, found in reports.items():
        info = source_info(each)
        console.print(f"{info.title} in {escape(str(base / info.folder))}", soft_wrap=True)
        console.print(_verify_table(found))
    for each in broken:
        command = fetch_command(each, base)
        console.print(
            f"[bold red]{each} is not complete and good.[/bold red] "
            f"`{escape(command)}` replaces bad files and adds missing ones.",
            soft_wrap=True,
        )
    if broken:
        raise typer.Exit(1)


def _is_here(found: list[FileReport]) -> bool:
    return any(report.state is not FileState.MISSING for report in found)


def _is_good(found: list[FileReport]) -> bool:
    return all(report.state is FileState.GOOD for report in found)


def _verify_table(found: list[FileReport]) -> Table:
    table = Table()
    for heading in ("file", "size", "state", "md5"):
        table.add_column(heading, overflow="fold")
    for report in found:
        state = f"[{STYLES[report.state]}]{report.state.value}[/]"
        md5 = report.md5 or "–"
        if report.state is FileState.BAD:
            md5 = f"{md5}, expected {report.expected_md5}"
        size = "–" if report.size is None else decimal(report.size)
        table.add_row(escape(report.path.name), size, state, md5)
    return table
