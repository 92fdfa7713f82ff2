"""Read CSV files whole or in chunks, with errors that say what is wrong with the file."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from felbo.workflow.compressed import opened
from felbo.workflow.errors import InputError
from felbo.workflow.marks import number, refuse_marks

Frame = Any

# Words for a missing value in a column of features, as pandas documents them.
MISSING = [
    "",
    "#N/A",
    "#N/A N/A",
    "#NA",
    "-1.#IND",
    "-1.#QNAN",
    "-NaN",
    "-nan",
    "1.#IND",
    "1.#QNAN",
]
MISSING += ["<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]
# Name for what follows the last column, which no column of a file can have.
EXTRA = "\0"


@dataclass(frozen=True)
class CSV:
    """A CSV file.

    Attributes:
        path: the file, possibly compressed (.gz, .bz2, .xz, .zip).
        separator: between columns; ``None`` is a tab for .tsv files and a comma for others.
        encoding: of the text.
        decimal: mark in numbers; ``None`` is a point, and refuses columns of numbers with commas.
    """

    path: Path
    separator: str | None = None
    encoding: str = "utf-8"
    decimal: str | None = None

    @property
    def _settings(self) -> dict[str, Any]:
        tab = ".tsv" in [suffix.lower() for suffix in self.path.suffixes]
        separator = (self.separator or ("\t" if tab else ",")).replace(r"\t", "\t")
        if len(separator) != 1:
            raise InputError(f"A separator is one character, such as ';', got {separator!r}.")
        # A byte order mark would become part of the first name.
        encoding = "utf-8-sig" if self.encoding.lower() in ("utf-8", "utf8") else self.encoding
        return {
            "sep": separator,
            "encoding": encoding,
            "decimal": self.decimal or ".",
            "compression": None,
            "keep_default_na": False,
        }

    def columns(self) -> list[str]:
        """Return the names of the columns, each there once."""
        with _explained(self):
            first = pd.read_csv(
                opened(self.path), header=None, nrows=1, dtype=str, **self._settings
            )
        names = [str(name) for name in first.iloc[0]]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise InputError(
                f"{self.path}: these columns have the same name: {', '.join(map(repr, doubled))}. "
                "Give every column a name of its own."
            )
        if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
            mark = next(mark for mark in ";\t|" if mark in names[0])
            raise InputError(
                f"{self.path} has a single column {names[0]!r}: it seems to be separated by "
                f"{mark!r}. Pass --separator {mark!r}."
            )
        return names

    def _table(self, literal: Collection[str]) -> dict[str, Any]:
        """Return the settings for reading rows.

        Args:
            literal: columns in which only empty cells are missing. In others the usual words are
                missing values too; a class, though, may be named 'None'.
        """
        names = self.columns() + self._extra()
        return {
            **self._settings,
            "header": 0,
            "names": names,
            "index_col": False,
            "na_values": {name: [""] if name in literal else MISSING for name in names},
            # In a table of one column, a line without anything is a row without a value.
            "skip_blank_lines": len(names) > 1,
        }

    def read(self, literal: Collection[str] = (), drop: Collection[str] = ()) -> Frame:
        """Return the whole table; columns that are not all numbers are text.

        Args:
            literal: columns that are text as it is written, whatever they hold.
            drop: columns to leave out.
        """
        settings = self._table(literal)
        kinds = dict.fromkeys((*literal, *drop), str)
        with _explained(self):
            # Of all columns: with some of them, pandas takes rows with more fields than names.
            frame = pd.read_csv(opened(self.path), low_memory=False, dtype=kinds, **settings)
            self._remove_extra(frame)
            frame = frame.drop(columns=list(drop))
            text = [name for name in frame.columns if frame[name].dtype.kind not in "fiu"]
            if text:
                # As they are written: 'True' and '007' are the same in every file and chunk.
                again = pd.read_csv(opened(self.path), dtype=str, usecols=text, **settings)
                for name in text:
                    frame[name] = again[name].astype(object)
        refuse_marks(frame[[name for name in text if name not in literal]], self.path, self.decimal)
        return frame

    def _extra(self) -> list[str]:
        """Return a name for the field that follows the last column, if the first row has one."""
        try:
            first = pd.read_csv(
                opened(self.path), header=None, skiprows=1, nrows=1, dtype=str, **self._settings
            )
        except (ValueError, UnicodeError):  # no row, or one that the reader of the table refuses
            return []
        return [EXTRA] if first.shape[1] > len(self.columns()) else []

    def _remove_extra(self, frame: Frame) -> None:
        """Remove the field that follows the last column; raise unless it is always empty."""
        if EXTRA in frame and frame.pop(EXTRA).notna().any():
            raise InputError(
                f"{self.path} has rows with more fields than names of columns, "
                f"{len(self.columns())}, so that all of them would move: name every column in the "
                "first row, row numbers too."
            )

    def chunks(
        self,
        wanted: list[str],
        numbers: Collection[str],
        rows: int,
        literal: Collection[str] = (),
    ) -> Iterator[Frame]:
        """Yield some columns, some rows at a time.

        Args:
            wanted: names of the columns.
            numbers: those that hold numbers; others are text.
            rows: per chunk.
            literal: columns of text in which only empty cells are missing.
        """
        settings = self._table(literal)
        # Of all columns, as in `read`.
        kinds = {name: "float64" if name in numbers else "str" for name in settings["names"]}
        try:
            with _explained(self):
                reader = pd.read_csv(opened(self.path), dtype=kinds, chunksize=rows, **settings)
            with reader:
                while True:
                    with _explained(self):
                        chunk = next(reader, None)
                    if chunk is None:
                        return
                    self._remove_extra(chunk)
                    yield chunk[wanted]
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(self._misfit(numbers, rows, settings) or str(error)) from error

    def _misfit(self, numbers: Collection[str], rows: int, settings: dict[str, Any]) -> str | None:
        """Return a message about the first value that should be a number and is not."""
        with pd.read_csv(opened(self.path), dtype=str, chunksize=rows, **settings) as reader:
            for chunk in reader:
                for name in numbers:
                    values = chunk[name]
                    plain = values.str.replace(self.decimal or ".", ".", regex=False)
                    bad = pd.to_numeric(plain, errors="coerce").isna() & values.notna()
                    if bad.any():
                        row = int(bad.idxmax())
                        comma = ", or pass --decimal , if its comma stands before decimals"
                        fits = "," in values[row] and re.fullmatch(number(","), values[row])
                        return (
                            f"{self.path}: column {name!r} held numbers in training, but row "
                            f"{row + 1} holds {values[row]!r}. Correct it, or leave it empty if "
                            f"the value is missing{comma if fits else ''}."
                        )
        return None


@contextmanager
def _explained(file: CSV) -> Iterator[None]:
    """Context manager: errors of reading say what is wrong with the file."""
    try:
        with warnings.catch_warnings():
            # Fields beyond the names of columns would be lost.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{file.path} is empty.") from error
    except (UnicodeDecodeError, UnicodeError) as error:
        raise InputError(
            f"{file.path} is not {file.encoding} text ({error}). Pass its encoding, such as "
            "--encoding cp1252 (Windows), latin-1 or utf-16."
        ) from error
    except LookupError as error:
        raise InputError(f"There is no encoding {file.encoding!r}: {error}.") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise InputError(f"{file.path} is not a table: {error}") from error
