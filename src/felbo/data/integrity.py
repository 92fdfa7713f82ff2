"""Verify data files against their published md5 hashes."""

import hashlib
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from felbo.data.errors import CorruptDataError
from felbo.data.location import data_root
from felbo.data.registry import DataFile, source_info

__all__ = ["FileReport", "FileState", "check_bytes", "verify"]


class FileState(Enum):
    """Result of checking one file."""

    GOOD = "good"
    BAD = "bad"
    MISSING = "missing"


class FileReport(NamedTuple):
    """One checked file; `size` (in bytes) and `md5` are None if the file is missing."""

    path: Path
    state: FileState
    expected_md5: str
    size: int | None = None
    md5: str | None = None


def verify(name: str, root: str | PathLike[str] | None = None) -> list[FileReport]:
    """Hash every file of a data set and compare with the published value.

    Args:
        name: The data set.
        root: The data root; see :func:`felbo.data.location.data_root`.

    Returns:
        One report for each file, in the order of the registry.
    """
    info = source_info(name)
    folder = data_root(root) / info.folder
    return [report(folder / file.name, file) for file in info.files]


def report(path: Path, file: DataFile) -> FileReport:
    """Hash one file in chunks and compare with the published md5."""
    if not path.is_file():
        return FileReport(path, FileState.MISSING, file.md5)
    with path.open("rb") as stream:
        md5 = hashlib.file_digest(stream, _md5).hexdigest()
    state = FileState.GOOD if file.accepts(md5) else FileState.BAD
    return FileReport(path, state, file.md5, path.stat().st_size, md5)


def check_bytes(content: bytes, file: DataFile, *, source: Path, remedy: str) -> None:
    """Raise CorruptDataError unless the content has the published md5."""
    md5 = _md5(content).hexdigest()
    if not file.accepts(md5):
        raise CorruptDataError(
            source,
            expected=f"md5 {file.md5}",
            came=f"md5 {md5} ({len(content):,} bytes)",
            remedy=remedy,
        )


def _md5(content: bytes = b"") -> "hashlib._Hash":
    # The publishers give md5 only. FIPS builds of Python allow it if it is not for security.
    return hashlib.md5(content, usedforsecurity=False)
