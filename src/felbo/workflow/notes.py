"""What a user should know about a table and its labels before trusting a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from felbo.estimator import FunctionSpaceClassifier
from felbo.workflow.csv import MISSING

# A column of text with fewer values that are no numbers was probably meant to hold numbers.
MOST_WORDS = 0.1
# In so few rows, values can all be different by chance.
FEW = 20


def notes_of_labels(labels: NDArray[Any], held_out: NDArray[Any], unlabelled: int) -> list[str]:
    """Return what a user should know about the labels.

    Args:
        labels: of all rows that have one.
        held_out: those of the rows that are evaluated; may be empty.
        unlabelled: number of rows without a label.
    """
    notes = [left_out(unlabelled)] if unlabelled else []
    classes = np.unique(labels).tolist()
    alike: dict[str, list[str]] = {}
    for label in (label for label in classes if isinstance(label, str)):
        alike.setdefault(label.strip().casefold(), []).append(label)
    notes += [
        f"The classes {', '.join(map(repr, same))} differ in spaces or capitals only. If they are "
        "one class, write them alike."
        for same in alike.values()
        if len(same) > 1
    ]
    notes += [
        f"The class {word!r} is the word of a missing value in other columns. Where a label is "
        "missing, leave the cell empty."
        for word in classes
        if word in MISSING
    ]
    absent = sorted(set(classes) - set(held_out.tolist()), key=str)
    if len(held_out) and absent:
        notes.append(
            "Too few rows to hold one out, so that the evaluation tells nothing about the classes "
            f"{', '.join(map(repr, absent[:10]))}{' …' if len(absent) > 10 else ''}."
        )
    return notes


def notes_of_columns(X: Any, odd: dict[str, str]) -> list[str]:
    """Return what a user should know about the columns.

    Args:
        X: training rows.
        odd: columns that :func:`almost_numbers` found.
    """
    notes = []
    if "" in X.columns:
        notes.append(
            "A column without a name counts as a feature. If it holds row numbers, leave it out "
            "with --drop ''."
        )
    constant = [str(name) for name in X.columns if X[name].nunique(dropna=False) < 2]
    if constant:
        notes.append(f"Columns with a single value tell nothing: {', '.join(constant)}.")
    text = [name for name in X.columns if X[name].dtype == object]
    for name, word in odd.items():
        notes.append(
            f"Column {name!r} holds numbers but for a few values such as {word!r}, so that each of "
            "its values is a category. Leave such cells empty where a value is missing."
        )
    text = [name for name in text if name not in odd]
    names = [str(name) for name in text if X[name].nunique() > max(FEW, 0.5 * X[name].count())]
    if names:
        notes.append(
            f"Columns of text with another value in most rows tell little about new rows: "
            f"{', '.join(names)}. They can be left out with --drop."
        )
    if numbers := [str(name) for name in X.columns if name and _are_identifiers(X[name])]:
        notes.append(
            "Columns of whole numbers with another value in every row may be identifiers, which "
            f"tell nothing about new rows: {', '.join(numbers)}. If so, leave them out with --drop."
        )
    missing = int(X.isna().any(axis=1).sum())
    if missing:
        notes.append(f"{missing} of {len(X)} training rows have missing values.")
    return notes


def _are_identifiers(values: Any) -> bool:
    """Return whether all values are there, whole and different, in more rows than a few."""
    if values.dtype == object or len(values) <= FEW or values.isna().any():
        return False
    return bool((values % 1 == 0).all() and values.is_unique)


def left_out(unlabelled: int) -> str:
    """Return a sentence about rows without a label."""
    rows = (
        "1 row without a label was"
        if unlabelled == 1
        else f"{unlabelled} rows without a label were"
    )
    return f"{rows} left out."


def almost_numbers(X: Any) -> dict[str, str]:
    """Return the columns of text whose values are numbers but for a few, and one of those."""
    found = {}
    for name in (name for name in X.columns if X[name].dtype == object):
        there = X[name].dropna()
        words = there[pd.to_numeric(there, errors="coerce").isna()]
        if 0 < len(words) <= MOST_WORDS * len(there):
            found[str(name)] = str(words.iloc[0])
    return found


def notes_of_training(classifier: FunctionSpaceClassifier) -> list[str]:
    """Return what a user should know about the training."""
    if not classifier.early_stopping or "validation_scores_" in vars(classifier):
        return []
    return [
        "Too few rows to hold some out for early stopping: trained for all "
        f"{classifier.epochs} epochs."
    ]
