"""Read and write Parquet files in chunks, with pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from felbo.workflow.errors import InputError

# Repeated values are stored once: a file of a few kilobytes can hold billions.
MOST_VALUES = 2_000_000_000


def parquet_columns(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    names: list[str] = _open(path).schema_arrow.names
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(f"{path}: these columns have the same name: {doubled}.")
    return names


def parquet_chunks(path: Path, wanted: list[str], rows: int) -> Iterator[Any]:
    """Yield some columns of a Parquet file as DataFrames, some rows at a time."""
    empty = True
    file = _open(path)
    try:
        for batch in file.iter_batches(rows, columns=wanted):
            empty = False
            # The names are those of the schema; what pandas wrote beside it may be damaged.
            # Whole numbers stay so where some are missing.
            yield batch.to_pandas(ignore_metadata=True, integer_object_nulls=True)[wanted]
    except (pyarrow().ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}") from error
    if empty:
        raise InputError(f"{path} has names of columns, but no rows.")


def pyarrow() -> Any:
    """Return pyarrow with its module for Parquet, or say how to install it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            "Parquet files need pyarrow: pip install 'felbo[parquet]'. CSV files do not."
        ) from error
    return pyarrow


def _open(path: Path) -> Any:
    arrow = pyarrow()
    try:
        # Checksums are compared where the writer made some.
        file = arrow.parquet.ParquetFile(path, page_checksum_verification=True)
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path} is no Parquet file, or it is damaged: {error}") from error
    values = file.metadata.num_rows * file.metadata.num_columns
    if values > MOST_VALUES:
        raise InputError(
            f"{path} has {values:,} values, and felbo reads {MOST_VALUES:,} at most. Split it."
        )
    return file
