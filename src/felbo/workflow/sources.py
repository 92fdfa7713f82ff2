"""What a source on the command line is: a table, a folder of images or a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from felbo.data import NAMES
from felbo.workflow.errors import InputError

if TYPE_CHECKING:
    from felbo.workflow.images import ImageSource
    from felbo.workflow.tables import TableFile


class Form(NamedTuple):
    """How a CSV file is written.

    Attributes:
        separator: between columns; ``None`` for a comma, or a tab in .tsv files.
        encoding: of the text.
        decimal: mark in numbers; ``None`` for a point.
    """

    separator: str | None = None
    encoding: str = "utf-8"
    decimal: str | None = None


def is_table(source: str) -> bool:
    """Return True for a file, False for a folder or the name of a data set.

    Raises:
        InputError: if it is none of these.
    """
    path = Path(source)
    if path.is_dir() or (source in NAMES and not path.exists()):
        return False
    if not path.exists():
        raise InputError(
            f"There is no file or folder {source}, and no data set of that name; data sets are "
            f"{', '.join(NAMES)}."
        )
    return True


def open_table(source: str, form: Form) -> TableFile:
    """Return a table in a file."""
    from felbo.workflow.tables import TableFile

    if not is_table(source):
        raise InputError(f"This run is about tables; {source} is none.")
    return TableFile(Path(source), *form)


def open_images(source: str, size: int) -> ImageSource:
    """Return the images of a folder, or of a data set."""
    from felbo.workflow.images import FolderImages, NamedImages

    if is_table(source):
        raise InputError(f"This run is about images; {source} is a file. Pass their folder.")
    path = Path(source)
    return FolderImages(path, size) if path.is_dir() else NamedImages(source)
