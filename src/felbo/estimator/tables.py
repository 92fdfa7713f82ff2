"""Encode tables as float32 matrices and decode them, with scikit-learn's transformers."""

from __future__ import annotations

from datetime import date
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from felbo.errors import DataError

Array = NDArray[Any]

# A column of names or identifiers would otherwise become as many columns as there are rows.
MAX_CATEGORIES = 256
# Numbers in the units of the table that can be squared, and deviations from the mean that float32
# can hold with room to compute.
LARGEST, FARTHEST = 1e150, 1e30


def is_frame(X: Any) -> TypeGuard[Any]:
    """Return whether ``X`` is a pandas DataFrame, without importing pandas."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def take(X: Any, index: Any) -> Any:
    """Return rows of a table, by a slice or an array of positions."""
    return X.iloc[index] if is_frame(X) else X[index]


class TableEncoder:
    """Numbers standardised, categories one-hot, missing values filled in.

    A missing number becomes the median of its column; a missing category is a category of its own,
    and one that was not there in training has zeros in all columns of the encoding.

    Attributes:
        numbers: positions of the columns of numbers.
        categories: positions of the other columns; arrays have none.
        imputer: scikit-learn's, with the medians; there if there are numbers.
        scaler: scikit-learn's, with means and deviations; there if there are numbers.
        one_hot: scikit-learn's encoder of the categories; there if there are any.
    """

    def fit(self, X: Any, weights: Array) -> TableEncoder:
        """Learn medians, means, deviations and categories.

        Args:
            X: a DataFrame, or a dense or sparse matrix of numbers ``[N, D]``.
            weights: of the rows in means and deviations ``[N]``.
        """
        self.columns = list(X.columns) if is_frame(X) else None
        self.numbers, self.categories = _kinds(X)
        numbers, categories = self._parts(X)
        if self.numbers:
            self.imputer = SimpleImputer(strategy="median", keep_empty_features=True).fit(numbers)
            filled = self.imputer.transform(numbers)
            self.scaler = StandardScaler().fit(filled, sample_weight=weights)
        if self.categories:
            _check_one_type(categories)
            self.one_hot = OneHotEncoder(
                handle_unknown="ignore", sparse_output=False, max_categories=MAX_CATEGORIES
            ).fit(categories)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the rows as the network sees them, numbers first ``[N, F]``."""
        numbers, categories = self._parts(X)
        parts = []
        if self.numbers:
            parts.append(self.scaler.transform(self.imputer.transform(numbers)))
            if is_frame(X):
                far = np.abs(parts[0]) > FARTHEST
                _refuse(far, numbers, X.index, list(X.columns[self.numbers]))
        if self.categories:
            parts.append(self.one_hot.transform(categories))
        return np.hstack(parts).astype(np.float32)

    def inverse(self, features: NDArray[np.float32]) -> Any:
        """Return rows in the units of the table, for a classifier that was fitted on such rows.

        Args:
            features: ``[S, F]``; of the columns of a category the largest one counts.
        """
        split = len(self.numbers)
        numbers = features[:, :split]
        if self.numbers:
            numbers = self.scaler.inverse_transform(numbers)
        if self.columns is None:
            return numbers
        import pandas as pd  # the table that was fitted is one of its frames

        values: dict[Any, Any] = dict(zip(self._names(self.numbers), numbers.T, strict=True))
        if self.categories:
            categories = self.one_hot.inverse_transform(features[:, split:])
            values |= dict(zip(self._names(self.categories), categories.T, strict=True))
        return pd.DataFrame(values)[self.columns]

    def _names(self, positions: list[int]) -> list[Any]:
        assert self.columns is not None
        return [self.columns[position] for position in positions]

    def _parts(self, X: Any) -> tuple[Array, Any]:
        """Return the numbers ``[N, ·]`` of a table, and its columns of categories."""
        if not is_frame(X):
            if self.categories:
                raise DataError(
                    "This classifier was fitted on a DataFrame with categories "
                    f"({self._names(self.categories)}); pass a DataFrame with the same columns."
                )
            return X.toarray() if sparse.issparse(X) else X, None
        self._check_columns(X)
        numbers = _as_numbers(X.iloc[:, self.numbers])
        with np.errstate(invalid="ignore"):
            large = np.abs(numbers) > LARGEST
        # Names of this table: an encoder that was fitted on an array has none.
        _refuse(large, numbers, X.index, list(X.columns[self.numbers]))
        # pandas knows several missing values, the encoder one per type.
        categories = X.iloc[:, self.categories].astype(object)
        return numbers, categories.where(categories.notna(), None)

    def _check_columns(self, X: Any) -> None:
        """Raise for columns that cannot be those of the training.

        Names that are no text are not compared by scikit-learn.
        """
        names = list(X.columns)
        if self.columns is not None and names != self.columns and set(names) == set(self.columns):
            raise DataError(
                f"The columns are those of the training in another order: {names} in place of "
                f"{self.columns}. Pass X[{self.columns}]."
            )
        known = self.one_hot.categories_ if hasattr(self, "one_hot") else []
        for position, values in zip(self.categories, known, strict=False):
            given, was_text = X.iloc[:, position].dropna(), isinstance(values[0], str)
            # A missing value is the last of the values, and the first if it is the only one.
            if len(given) and values[0] is not None and isinstance(given.iloc[0], str) != was_text:
                raise DataError(
                    f"Column {names[position]!r} holds {type(given.iloc[0]).__name__} in place of "
                    f"the {type(values[0]).__name__} of the training, so that all of its values "
                    "would be unknown. Convert it to the type of the training."
                )


def _as_numbers(columns: Any) -> Array:
    """Return columns of numbers ``[N, D]``, NaN where they are missing."""
    try:
        return np.asarray(columns.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError) as error:
        for name in columns.columns:
            try:
                columns[name].to_numpy(dtype=np.float64, na_value=np.nan)
            except (TypeError, ValueError) as cause:
                raise DataError(
                    f"Column {name!r} held numbers in training, but a value of it is none now: "
                    f"{cause}. Correct it, or leave it empty."
                ) from error
        raise


def _refuse(too_large: Array, numbers: Array, rows: Any, columns: list[Any]) -> None:
    """Raise for the first number that is too large.

    Args:
        too_large: whether each is ``[N, D]``.
        numbers: in the units of the table ``[N, D]``.
        rows: labels of the rows.
        columns: names of the columns.
    """
    if too_large.any():
        row, column = np.argwhere(too_large)[0]
        raise DataError(
            f"Input X contains infinity or a value that is too large: {numbers[row, column]:g} in "
            f"column {columns[column]!r}, row {rows[row]}. Correct it, or leave it empty."
        )


def _check_one_type(categories: Any) -> None:
    """Raise if a column holds numbers beside text, which cannot be ordered."""
    for name in categories.columns:
        kinds = sorted({type(value).__name__ for value in categories[name] if value is not None})
        if len(kinds) > 1:
            raise DataError(
                f"Column {name!r} holds values of several types, {', '.join(kinds)}: make them "
                "all text, or all numbers."
            )


class NumberTable:
    """Numbers as they are, for tables that need no preprocessing."""

    columns = None
    categories: tuple[int, ...] = ()

    def fit(self, X: Any, weights: Array) -> NumberTable:
        """Return itself: there is nothing to learn."""
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the rows as float32 ``[N, D]``."""
        dense = X.toarray() if sparse.issparse(X) else X
        return np.asarray(dense, dtype=np.float32)

    def inverse(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the features themselves."""
        return features


def _kind(values: Any) -> str:
    """Return numpy's letter for the kind of a column.

    ``"M"`` for dates of any kind, ``"O"`` for text of any kind.
    """
    dated = values.dtype.kind == "O" and isinstance(next(iter(values.dropna()), None), date)
    periods = str(values.dtype).startswith("period")
    return "M" if dated or periods else str(values.dtype.kind).replace("U", "O")


def _kinds(X: Any) -> tuple[list[int], list[int]]:
    """Return the positions of the columns of numbers and of categories."""
    if not is_frame(X):
        return list(range(X.shape[1])), []
    # Objects that are all numbers are numbers.
    table = X.infer_objects()
    kinds = [_kind(table.iloc[:, position]) for position in range(table.shape[1])]
    unknown = [name for name, kind in zip(X.columns, kinds, strict=True) if kind not in "fiubO"]
    if unknown:
        raise DataError(
            f"The columns {unknown} hold neither numbers nor categories (their types are "
            f"{[str(X[name].dtype) for name in unknown]}). Turn dates into numbers, such as days "
            "since a first one, or leave them out."
        )
    numbers = [position for position, kind in enumerate(kinds) if kind in "fiub"]
    return numbers, [position for position, kind in enumerate(kinds) if kind == "O"]
