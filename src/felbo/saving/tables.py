"""Describe a fitted table encoder as JSON, and build it again.

The transformers of scikit-learn are never pickled. They are fitted again, to a few rows that are
made so that they learn the same: this needs nothing but their public behaviour.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from felbo._container import SavedFileError
from felbo.estimator.tables import MAX_CATEGORIES, NumberTable, TableEncoder
from felbo.saving.values import pack, pack_array, unpack, unpack_array

Table = TableEncoder | NumberTable


def describe_table(table: Table) -> dict[str, Any]:
    """Return columns, medians, means, deviations and categories of a fitted preprocessing."""
    if isinstance(table, NumberTable):
        return {"encoded": False}
    columns = table.columns
    found: dict[str, Any] = {
        "encoded": True,
        "columns": None if columns is None else [pack(name) for name in columns],
        "numbers": table.numbers,
        "categories": table.categories,
    }
    if table.numbers:
        scaler = table.scaler
        found["medians"] = pack_array(table.imputer.statistics_)
        found["scaler"] = {
            "mean": pack_array(scaler.mean_),
            "scale": pack_array(scaler.scale_),
            "var": pack_array(scaler.var_),
            "seen": pack_array(np.atleast_1d(scaler.n_samples_seen_)),
        }
    if table.categories:
        found["values"] = _describe_categories(table.one_hot)
    return found


def build_table(found: dict[str, Any]) -> Table:
    """Return the preprocessing that was described."""
    if not found["encoded"]:
        return NumberTable()
    table = TableEncoder()
    names = found["columns"]
    table.columns = None if names is None else [unpack(name) for name in names]
    table.numbers, table.categories = found["numbers"], found["categories"]
    if table.numbers:
        medians = unpack_array(found["medians"])
        table.imputer = SimpleImputer(strategy="median", keep_empty_features=True)
        table.imputer.fit(medians[None])  # the median of one row is that row
        table.scaler = _scaler(found["scaler"])
    if table.categories:
        assert table.columns is not None
        columns = [table.columns[position] for position in table.categories]
        table.one_hot = _one_hot(found["values"], columns)
    return table


def _scaler(found: dict[str, Any]) -> StandardScaler:
    scaler = StandardScaler()
    scaler.mean_, scaler.scale_, scaler.var_ = (
        unpack_array(found[name]) for name in ("mean", "scale", "var")
    )
    seen = unpack_array(found["seen"])
    scaler.n_samples_seen_ = seen[0] if len(seen) == 1 else seen
    scaler.n_features_in_ = len(scaler.mean_)
    return scaler


def _describe_categories(encoder: OneHotEncoder) -> list[dict[str, Any]]:
    """Return the categories of each column, and those that share one output as too rare."""
    rare = encoder.infrequent_categories_
    return [
        {
            "all": [pack(value) for value in categories],
            "rare": [] if rare[column] is None else [pack(value) for value in rare[column]],
        }
        for column, categories in enumerate(encoder.categories_)
    ]


def _one_hot(found: list[dict[str, Any]], columns: list[Any]) -> OneHotEncoder:
    """Fit an encoder to a table in which each category comes twice, and each rare one once."""
    import pandas as pd  # the table that was fitted is one of its frames

    rows = [_rows(column) for column in found]
    longest = max(len(column) for column in rows)
    table = pd.DataFrame(
        {
            name: pd.Series([*column, *[column[0]] * (longest - len(column))], dtype=object)
            for name, column in zip(columns, rows, strict=True)
        }
    )
    encoder = OneHotEncoder(
        handle_unknown="ignore", sparse_output=False, max_categories=MAX_CATEGORIES
    ).fit(table)
    if _describe_categories(encoder) != found:
        raise SavedFileError("The categories of the table cannot be restored from this file.")
    return encoder


def _rows(column: dict[str, Any]) -> list[Any]:
    rare = column["rare"]
    frequent = [value for value in column["all"] if value not in rare]
    return [unpack(value) for value in (*frequent, *frequent, *rare)]
