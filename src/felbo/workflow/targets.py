"""The target column: labels that can be classified, and a split that keeps their shares."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from felbo.workflow.errors import InputError

Array = NDArray[Any]

NUMBER = re.compile(r"\s*[+-]?(0|[1-9]\d*)(\.\d*)?([eE][+-]?\d+)?\s*")
# Beyond it neighbouring whole numbers are one number in float64.
LARGEST = 2**53
# With more different labels than this share of the rows, a target is no class.
MOST_CLASSES = 0.5


def split_target(frame: Any, target: str) -> tuple[Any, Array, int]:
    """Return features, labels and the number of rows that were left out for want of a label.

    Args:
        frame: a DataFrame of numbers and text.
        target: name of the column of labels.
    """
    known = frame[target].notna()
    rows = frame[known]
    features = rows.drop(columns=[target])
    if not features.shape[1]:
        raise InputError(f"There is no column to learn from besides the target {target!r}.")
    return features, checked_labels(rows[target].to_numpy(), target), int((~known).sum())


def checked_labels(values: Array, target: str) -> Array:
    """Return labels as whole numbers or text; raise if there are none, or fractions.

    Text is a number if all labels are, and none is written with leading zeros: a code such as 010
    is a name.
    """
    if not len(values):
        raise InputError(f"The target {target!r} is missing in every row.")
    if values.dtype.kind != "f":
        words = np.array([str(value) for value in values])
        if not all(map(NUMBER.fullmatch, words)):
            return words
        values = words.astype(np.float64)
        if np.abs(values).max() >= LARGEST:
            return words
    labels = values.astype(np.int64)
    if not np.array_equal(labels, values):
        raise InputError(
            f"The target {target!r} holds numbers that are not whole, such as "
            f"{float(values[labels != values][0]):g}: felbo predicts classes. Cut the numbers "
            "into classes first, for instance with pandas.cut."
        )
    return np.asarray(labels)


def check_classes(labels: Array, target: str) -> None:
    """Raise if labels cannot be classes to train on: a single one, or nearly one per row."""
    classes = len(np.unique(labels))
    if classes < 2:
        raise InputError(
            f"The target {target!r} has one class only, {str(labels[0])!r}: there is nothing to "
            "tell apart. Is it the right column?"
        )
    if len(labels) > 20 and classes > MOST_CLASSES * len(labels):
        raise InputError(
            f"The target {target!r} has {classes} different values in {len(labels)} rows: "
            "it looks like a measurement or an identifier, not a class. Choose another column."
        )


def split_rows(labels: Array, fraction: float, seed: int) -> tuple[Array, Array]:
    """Return the positions of rows to train on and to hold out, in their order.

    Of each class the same fraction is held out, rounded, and at least one row stays.

    Example:
        >>> kept, held_out = split_rows(np.array([0, 0, 0, 0, 1]), 0.25, seed=0)
        >>> len(kept), len(held_out)
        (4, 1)
    """
    if not 0.0 <= fraction < 1.0:
        raise InputError(f"The share of rows to hold out must lie in [0, 1), got {fraction}.")
    generator = np.random.default_rng(seed)
    held_out = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        held_out[rows[: min(round(fraction * len(rows)), len(rows) - 1)]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
