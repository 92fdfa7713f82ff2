"""`felbo data corrupt` and `felbo data show-corruptions`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from torch import Tensor

from felbo.data import (
    CORRUPTIONS,
    SEVERITIES,
    CorruptDataError,
    MissingDataError,
    corrupted,
    write_corrupted,
)
from felbo.data.corruptions.generated import CHUNK, check_dataset, clean_test_set
from felbo.data.location import ENVIRONMENT_VARIABLE

RootOption = Annotated[
    Path | None,
    typer.Option(
        "--root",
        help=f"Data root; by default the folder in {ENVIRONMENT_VARIABLE}, else the user's cache.",
    ),
]
SeedOption = Annotated[int, typer.Option(help="Seed of the random numbers.", min=0)]


def corruptible(name: str) -> str:
    """Typer callback that rejects data sets outside the benchmark."""
    try:
        check_dataset(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return name


def corrupt(
    name: Annotated[str, typer.Argument(help="cifar10 or cifar100.", callback=corruptible)],
    out: Annotated[
        Path,
        typer.Option(help="Folder; felbo reads <data root>/CIFAR-10-C by default."),
    ],
    root: RootOption = None,
    seed: SeedOption = 0,
    limit: Annotated[
        int | None, typer.Option(help="Number of test images, from the start.", min=1)
    ] = None,
) -> None:
    """Write the test images under 19 corruptions at 5 severities, in the published layout.

    Files that an earlier run of the same command finished are kept.
    """
    try:
        count = len(clean_test_set(name, root).labels)
        per_file = len(SEVERITIES) * min(limit or count, count)
        with _progress() as bar:
            task = bar.add_task("", total=len(CORRUPTIONS) * per_file)

            def advance(corruption: str, images: int) -> None:
                bar.update(task, description=corruption.replace("_", " "), advance=images)

            written = write_corrupted(name, out, root=root, seed=seed, limit=limit, advance=advance)
    except (CorruptDataError, MissingDataError, ValueError) as error:
        raise _refusal(error) from error
    Console().print(
        f"{1 + len(CORRUPTIONS)} files in {escape(str(out))}, {len(written)} of them written now.",
        soft_wrap=True,
    )


def _refusal(error: Exception) -> typer.Exit:
    Console(stderr=True).print(f"[bold red]{escape(str(error))}[/bold red]", soft_wrap=True)
    return typer.Exit(1)


def _progress() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description:>18}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn("images"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def show_corruptions(
    name: Annotated[str, typer.Argument(help="cifar10 or cifar100.", callback=corruptible)] = (
        "cifar10"
    ),
    out: Annotated[Path, typer.Option(help="Image file to write.")] = Path("corruptions.png"),
    root: RootOption = None,
    seed: SeedOption = 0,
    images: Annotated[int, typer.Option(help="Test images to show.", min=1, max=10)] = 3,
) -> None:
    """Draw all 19 corruptions at all 5 severities, and print their mean change of a pixel."""
    sheet: dict[tuple[str, int], Tensor] = {}
    table = Table(title=f"mean absolute change of a byte, first {CHUNK} test images")
    for heading in ("corruption", *map(str, SEVERITIES)):
        table.add_column(heading, justify="left" if heading == "corruption" else "right")
    try:
        clean = clean_test_set(name, root).images[:CHUNK]
        for corruption in CORRUPTIONS:
            changes = []
            for severity in SEVERITIES:
                found = corrupted(
                    name, corruption, severity, root=root, seed=seed, limit=len(clean)
                ).images
                sheet[corruption, severity] = found[:images]
                changes.append(f"{(found.float() - clean).abs().mean():.1f}")
            table.add_row(corruption, *changes)
    except (CorruptDataError, MissingDataError, ValueError) as error:
        raise _refusal(error) from error
    from felbo.report.corruptions import draw_corruptions  # matplotlib is slow to import

    Console().print(table)
    path = draw_corruptions(sheet, clean[:images], out)
    Console().print(f"Sheet: {escape(str(path))}", soft_wrap=True)
