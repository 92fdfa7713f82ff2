"""Tables in NPZ files: arrays ``[N]`` are columns, arrays ``[N, D]`` are D columns each.

Column d of an array ``x [N, D]`` is named ``x.d``. Rows are read out of the archive some at a time,
so that a file may be larger than memory.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd

from felbo._arrays import members_of, read_header
from felbo.workflow.errors import InputError

# A file of a few kilobytes can name billions.
MOST_COLUMNS = 100_000


class _Member(NamedTuple):
    """An array inside the archive, opened at its first row."""

    name: str
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    stream: IO[bytes]

    @property
    def columns(self) -> list[str]:
        if len(self.shape) != 2:
            return [self.name]
        return [f"{self.name}.{index}" for index in range(self.shape[1])]

    def rows(self, count: int) -> Any:
        width = self.shape[1] if len(self.shape) == 2 else 1
        content = self.stream.read(count * width * self.dtype.itemsize)
        return np.frombuffer(content, self.dtype).reshape(-1, width)


def npz_columns(path: Path) -> dict[str, list[str]]:
    """Return the names of the columns of each array of an NPZ file.

    An array that is neither ``[N]`` nor ``[N, D]`` has its own name, to be left out by it.
    """
    with ExitStack() as stack:
        return {member.name: member.columns for member in _members(path, stack)}


def npz_chunks(path: Path, wanted: list[str], rows: int) -> Iterator[Any]:
    """Yield some columns of an NPZ file as DataFrames, some rows at a time."""
    with ExitStack() as stack:
        members = [m for m in _members(path, stack) if not set(wanted).isdisjoint(m.columns)]
        _check_rows(members, path)
        for _ in range(0, members[0].shape[0], rows):
            parts = [pd.DataFrame(member.rows(rows), columns=member.columns) for member in members]
            yield pd.concat(parts, axis=1)[wanted]


def _members(path: Path, stack: ExitStack) -> list[_Member]:
    try:
        archive = stack.enter_context(zipfile.ZipFile(path))
        found = [_opened(archive, member, stack) for member in members_of(archive, path)]
    # A damaged archive can fail in the module for zip files with any exception.
    except Exception as error:
        raise InputError(f"{path} cannot be read as an NPZ file: {error}") from error
    columns = sum(member.shape[1] if len(member.shape) == 2 else 1 for member in found)
    if columns > MOST_COLUMNS:
        raise InputError(f"{path} has {columns:,} columns, and felbo reads {MOST_COLUMNS:,}.")
    return found


def _check_rows(members: list[_Member], path: Path) -> None:
    """Raise unless arrays are columns of one table."""
    for member in members:
        if len(member.shape) not in (1, 2) or (member.fortran and len(member.shape) == 2):
            raise InputError(
                f"{path} cannot be read as a table: array {member.name} has shape {member.shape}; "
                "expected [N] or [N, D] in C order (numpy.ascontiguousarray). Leave out with "
                "--drop what does not belong to it."
            )
    lengths = {member.name: member.shape[0] for member in members}
    if len(set(lengths.values())) != 1:
        raise InputError(
            f"{path}: all arrays need the same number of rows, got {lengths}. Leave out with "
            "--drop what does not belong to the table."
        )
    if not next(iter(lengths.values())):
        raise InputError(f"{path} has arrays, but no rows.")


def _opened(archive: zipfile.ZipFile, member: zipfile.ZipInfo, stack: ExitStack) -> _Member:
    name = member.filename
    stream = stack.enter_context(archive.open(member))
    shape, fortran, dtype = read_header(stream, member)
    return _Member(name.removesuffix(".npy"), shape, fortran, dtype, stream)
