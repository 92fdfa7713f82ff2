"""Validate tables, labels and sample weights, with the error messages of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from felbo.errors import DataError, ShapeError
from felbo.estimator.tables import is_frame

Array = NDArray[Any]

NUMPY_TYPES: dict[str, type] = {"i": np.int64, "u": np.uint64, "b": np.bool_}


def checked_table(estimator: BaseEstimator, X: Any, *, encode: bool, reset: bool) -> Any:
    """Return a table that can be encoded, with its columns noted or compared.

    Args:
        estimator: whose ``n_features_in_`` and ``feature_names_in_`` are set or compared.
        X: what the user passed.
        encode: whether there is an encoder for missing values and categories.
        reset: True in a new fit, which sets the names; False compares them.
    """
    if encode and is_frame(X):
        if min(X.shape) == 0:
            raise DataError(f"Found {len(X)} sample(s) and {X.shape[1]} feature(s) in X.")
        if not X.columns.is_unique:
            doubled = sorted({str(name) for name in X.columns[X.columns.duplicated()]})
            raise DataError(f"Every column of X needs a name of its own, these are not: {doubled}")
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return X
    return validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_all_finite="allow-nan" if encode else True,
    )


def checked_labels(y: Any, X: Any) -> Array:
    """Return one label per row of the table."""
    if y is None:
        raise DataError("A classifier requires y to be passed, but the target y is None.")
    labels = column_or_1d(_without_nullable(y), warn=True)
    labels = check_array(labels, ensure_2d=False, dtype=None, input_name="y")
    missing = sum(label is None for label in labels) if labels.dtype == object else 0
    if missing:
        raise DataError(
            f"y holds None in {missing} of {len(labels)} rows: leave rows without a label out, or "
            "give them one."
        )
    check_classification_targets(labels)
    check_consistent_length(X, labels)
    return np.asarray(labels)


def _without_nullable(y: Any) -> Any:
    """Return whole numbers and truth values of pandas' nullable types as those of numpy.

    scikit-learn would turn them into floats, and labels must come back as they are.
    """
    kind = getattr(getattr(y, "dtype", None), "kind", "")
    if kind not in NUMPY_TYPES or isinstance(y.dtype, np.dtype) or y.isna().any():
        return y
    return y.to_numpy(dtype=NUMPY_TYPES[kind])


def checked_classes(labels: Any) -> Array:
    """Return the different labels in order, at least two."""
    classes = np.unique(labels)
    if len(classes) < 2:
        raise DataError(
            f"A classifier needs rows of at least 2 classes, got 1 class: {classes.tolist()}."
        )
    return classes


def checked_weights(sample_weight: Any, rows: int) -> NDArray[np.float64]:
    """Return one weight per row, ones for ``None``.

    Whole numbers count rows. Others are relative, and scaled so that they are one on average over
    the rows that count.
    """
    if sample_weight is None:
        return np.ones(rows)
    weights = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weights.shape != (rows,):
        raise ShapeError(
            f"sample_weight needs one weight per row, shape ({rows},), got {weights.shape}."
        )
    if (weights < 0).any():
        raise DataError(f"sample_weight must not be negative, got {weights.min()}.")
    if not weights.any():
        raise DataError("sample_weight is zero for all rows: there is nothing to learn from.")
    if (weights == np.round(weights)).all():
        return np.asarray(weights)
    return np.asarray(weights * (np.count_nonzero(weights) / weights.sum()))


def encoded_labels(labels: Array, classes: Array) -> NDArray[np.int64]:
    """Return the position of each label among the classes."""
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise DataError(
            f"y holds the labels {unknown.tolist()}, which are not among the classes "
            f"{classes.tolist()} of the first call."
        )
    return np.searchsorted(classes, labels).astype(np.int64)
