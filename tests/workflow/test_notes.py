"""What is said about labels and columns."""

import numpy as np
import pandas as pd
import pytest

from felbo.workflow.notes import notes_of_columns, notes_of_labels


def of_labels(labels, held_out=None):
    labels = np.array(labels)
    return notes_of_labels(labels, labels if held_out is None else np.array(held_out), 0)


def test_labels_without_anything_odd():
    assert of_labels(["yes", "no", "none of them"]) == []
    assert of_labels([0, 1, -1]) == []


@pytest.mark.parametrize("other", ["yes ", " yes", "Yes", "YES"])
def test_classes_that_differ_in_spaces_or_capitals(other):
    (note,) = of_labels(["yes", "no", other])
    first, second = sorted(["yes", other])
    assert f"The classes {first!r}, {second!r} differ in spaces or capitals only" in note


@pytest.mark.parametrize("word", ["nan", "NA", "None"])
def test_a_class_that_may_be_a_missing_label(word):
    (note,) = of_labels(["yes", "no", word])
    assert f"The class {word!r} is the word of a missing value" in note


def test_classes_that_are_not_evaluated():
    (note,) = of_labels(["a", "b", "rare"], held_out=["a", "b"])
    assert note.endswith("tells nothing about the classes 'rare'.")
    assert of_labels(["a", "b"], held_out=[]) == []  # nothing is evaluated at all


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (np.arange(30.0) + 1e12, True),
        (np.arange(30.0) ** 2, True),
        (np.arange(30.0) // 2, False),  # some are equal
        (np.arange(30.0) + 0.5, False),  # measurements
        ([np.nan, *range(29)], False),
    ],
)
def test_whole_numbers_that_may_be_identifiers(values, told):
    notes = notes_of_columns(pd.DataFrame({"id": values}), {})
    assert any("may be identifiers" in note and ": id." in note for note in notes) == told


def test_few_rows_may_all_be_different():
    assert notes_of_columns(pd.DataFrame({"age": np.arange(20.0)}), {}) == []
