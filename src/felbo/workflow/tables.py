"""Tables in files: CSV, Parquet and NPZ, whole or in chunks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from felbo.workflow.csv import CSV
from felbo.workflow.errors import InputError
from felbo.workflow.npz import npz_chunks, npz_columns
from felbo.workflow.parquet import parquet_chunks, parquet_columns

Frame = Any

CSV_SUFFIXES = (".csv", ".tsv", ".txt")
SUFFIXES = (*CSV_SUFFIXES, ".parquet", ".npz")
CHUNK = 8192
# Names of columns that a message lists.
SHOWN = 30
# Such as 2024-05-31, 31.05.2024 or 5/31/2024, perhaps with a time.
DATE = re.compile(r"\s*(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{4})([T ]|\s*$)")


@dataclass(frozen=True)
class TableFile:
    """A file with a table: its columns have names.

    Attributes:
        path: .csv, .tsv, .txt, .parquet or .npz.
        separator: of a CSV file; ``None`` for a comma, or a tab in .tsv files.
        encoding: of a CSV file.
        decimal: mark in the numbers of a CSV file; ``None`` for a point.
    """

    path: Path
    separator: str | None = None
    encoding: str = "utf-8"
    decimal: str | None = None

    def __post_init__(self) -> None:
        if not self.path.is_file():
            raise InputError(f"There is no file {self.path}.")
        if self.kind is None:
            raise InputError(
                f"{self.path} is no table that felbo can read: its name must end in "
                f"{', '.join(SUFFIXES)}."
            )
        if self.path.stat().st_size == 0:
            raise InputError(f"{self.path} is empty.")

    @property
    def kind(self) -> str | None:
        """Return ``"csv"``, ``"parquet"`` or ``"npz"``."""
        for suffix in reversed(self.path.suffixes):
            if suffix.lower() in CSV_SUFFIXES:
                return "csv"
            if suffix.lower() in (".parquet", ".npz"):
                return suffix.lower().removeprefix(".")
        return None

    @property
    def _csv(self) -> CSV:
        return CSV(self.path, self.separator, self.encoding, self.decimal)

    def columns(self) -> list[str]:
        """Return the names of the columns."""
        if self.kind == "csv":
            return self._csv.columns()
        if self.kind == "parquet":
            return parquet_columns(self.path)
        return [name for names in npz_columns(self.path).values() for name in names]

    def read(self, target: str | None = None, drop: Sequence[str] = ()) -> Frame:
        """Return the whole table with at least one row: numbers as float64, all else as text.

        The index counts the rows from 1.

        Args:
            target: a column of labels, which is text: '010' is not 10.
            drop: columns to leave out, whatever they hold; of an NPZ file also whole arrays.
        """
        dropped = self._dropped(target, drop)
        wanted = [name for name in self.columns() if name not in dropped]
        literal = [] if target is None else [target]
        if self.kind == "csv":
            frame = self._csv.read(literal, dropped)
        else:
            frame = pd.concat(list(self._raw(wanted, CHUNK)), ignore_index=True)
        if frame.empty:
            raise InputError(f"{self.path} has names of columns, but no rows.")
        return _numbered(typed(frame, self.path, literal=literal), 1)

    def _dropped(self, target: str | None, drop: Sequence[str]) -> set[str]:
        """Return the columns to leave out; raise if they, or the target, are not there."""
        there = self.columns()
        arrays = npz_columns(self.path) if self.kind == "npz" else {}
        asked = (*drop, *([] if target is None else [target]))
        unknown = [n for n in asked if n not in there and (n == target or n not in arrays)]
        if unknown:
            raise InputError(
                f"There is no column {_listed(unknown)}; the columns are {_listed(there)}."
            )
        dropped = {column for name in drop for column in arrays.get(name, [name])}
        if target in dropped:
            raise InputError(f"{target!r} is the target, and cannot be left out with --drop.")
        return dropped

    def chunks(
        self,
        wanted: Sequence[str],
        numbers: Collection[str],
        rows: int = CHUNK,
        target: str | None = None,
    ) -> Iterator[Frame]:
        """Yield some columns, some rows at a time, of the types that they had in training.

        The index counts the rows of the file from 1.

        Args:
            wanted: names of the columns.
            numbers: those of them that held numbers in training.
            rows: per chunk.
            target: as in :meth:`read`.
        """
        self._check_there(wanted)
        if self.kind == "csv":
            chunks = self._csv.chunks(list(wanted), numbers, rows, [target] if target else [])
        else:
            raw = self._raw(list(wanted), rows)
            chunks = (typed(chunk, self.path, numbers) for chunk in raw)
        done = 0
        for chunk in chunks:
            if len(chunk):
                yield _numbered(chunk, done + 1)
                done += len(chunk)
        if not done:
            raise InputError(f"{self.path} has no rows: there is nothing to predict.")

    def copies(self, wanted: Sequence[str], rows: int = CHUNK) -> Iterator[Frame]:
        """Yield some columns as they are, to be copied: text of a CSV file, values of others."""
        self._check_there(wanted)
        if self.kind == "csv":
            return self._csv.chunks(list(wanted), (), rows, literal=wanted)
        return self._raw(list(wanted), rows)

    def _check_there(self, wanted: Sequence[str]) -> None:
        there = self.columns()
        missing = [name for name in wanted if name not in there]
        if missing:
            raise InputError(
                f"{self.path} has no column {_listed(missing)}. It has {_listed(there)}."
            )

    def _raw(self, wanted: list[str], rows: int) -> Iterator[Frame]:
        read = parquet_chunks if self.kind == "parquet" else npz_chunks
        return read(self.path, wanted, rows)


def _listed(names: Sequence[str]) -> str:
    """Return names for a message, of many the first."""
    return ", ".join(map(repr, names[:SHOWN])) + (" …" if len(names) > SHOWN else "")


def _numbered(frame: Frame, start: int) -> Frame:
    """Return a table whose index counts the rows, for messages."""
    return frame.set_axis(pd.RangeIndex(start, start + len(frame)), axis=0)


def typed(
    frame: Frame,
    path: Path,
    numbers: Collection[str] | None = None,
    literal: Collection[str] = (),
) -> Frame:
    """Return a table whose columns are float64 or text, ``None`` where text is missing.

    Args:
        frame: a DataFrame.
        path: where it comes from, for messages.
        numbers: columns that must hold numbers, all others being text; ``None`` lets their types
            decide.
        literal: columns of labels: whole numbers too are text, and none too large to be exact.
    """
    columns = {}
    for name in frame.columns:
        values = frame[name]
        exact = name in literal and values.dtype.kind != "f"
        if values.dtype.kind == "O" and not exact and values.map(_is_number).all():
            values = values.astype("float64")
        if values.dtype.kind == "c" or (values.dtype.kind == "O" and values.map(_is_nested).any()):
            raise InputError(
                f"{path}: column {name!r} holds lists, records or complex numbers. Make a column "
                "of each of their parts, or leave it out with --drop."
            )
        if values.dtype.kind in "mM" or (values.dtype.kind == "O" and _are_dates(values)):
            raise InputError(
                f"{path}: column {name!r} holds dates or times. Turn them into numbers, such as "
                "days since a first one, or leave them out with --drop."
            )
        as_number = values.dtype.kind in "fiu" if numbers is None else name in numbers
        as_number = as_number and not exact
        columns[name] = _numbers(values, name, path) if as_number else _text(values)
    return pd.DataFrame(columns, index=frame.index)


def _numbers(values: Any, name: str, path: Path) -> Any:
    try:
        return pd.to_numeric(values).astype("float64")
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path}: column {name!r} held numbers in training, and now holds other values: {error}"
        ) from error


def _text(values: Any) -> Any:
    there = values.notna()
    text = np.array([_word(v) if t else None for v, t in zip(values, there, strict=True)], object)
    return pd.Series(text, index=values.index, dtype=object)


def _word(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _is_number(value: Any) -> bool:
    """Return whether a value is missing, decimal or whole, as beside missing ones in Parquet."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return value is None or whole or isinstance(value, Decimal)


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | tuple | dict | np.ndarray)


def _are_dates(values: Any) -> bool:
    """Return whether all values that are there are dates, or text that says one."""
    there = values.dropna()
    return bool(len(there)) and all(
        isinstance(value, date) or (isinstance(value, str) and DATE.match(value)) for value in there
    )
