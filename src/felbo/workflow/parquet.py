"""Read and write Parquet files in chunks, with pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from felbo.workflow.errors import InputError


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
    for batch in _open(path).iter_batches(rows, columns=wanted):
        empty = False
        yield batch.to_pandas()[wanted]
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
        return arrow.parquet.ParquetFile(path)
    except arrow.ArrowInvalid as error:
        raise InputError(f"{path} is no Parquet file, or it is damaged: {error}") from error
