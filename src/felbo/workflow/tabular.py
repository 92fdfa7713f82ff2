"""Train, evaluate and predict on tables, with :class:`felbo.FunctionSpaceClassifier`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from felbo.estimator import FunctionSpaceClassifier
from felbo.estimator.tables import TableEncoder
from felbo.evaluation import Prediction
from felbo.saving import save
from felbo.workflow.errors import InputError
from felbo.workflow.evaluating import evaluated
from felbo.workflow.folder import (
    CHECKPOINTS,
    HELD_OUT,
    MODEL,
    Run,
    StoredEvaluation,
    remove_checkpoints,
)
from felbo.workflow.notes import (
    almost_numbers,
    left_out,
    notes_of_columns,
    notes_of_labels,
    notes_of_training,
)
from felbo.workflow.tables import TableFile
from felbo.workflow.targets import check_classes, split_rows, split_target
from felbo.workflow.unseen import Unseen

# Values of a row that an example shows.
SHOWN_VALUES = 40
# How far rows from elsewhere are moved, in standard deviations of each number.
FAR = 5.0


def train_table(
    file: TableFile,
    target: str,
    folder: Path,
    *,
    drop: list[str],
    test_fraction: float,
    seed: int,
    settings: dict[str, Any],
    verbose: bool = False,
) -> Run:
    """Train a classifier on a table, and write it with its evaluation to a folder.

    A training that was interrupted goes on from the checkpoints in the folder.

    Args:
        file: the table.
        target: name of the column of labels.
        folder: of the run.
        drop: columns to leave out.
        test_fraction: share of the rows that are held out for the evaluation.
        seed: of the split, the training and the evaluation.
        settings: further arguments of :class:`felbo.FunctionSpaceClassifier`.
        verbose: whether to show a progress bar.
    """
    started = time.monotonic()
    X, y, unlabelled = split_target(file.read(target, drop), target)
    check_classes(y, target)
    kept, held_out = split_rows(y, test_fraction, seed)
    classifier = FunctionSpaceClassifier(random_state=seed, verbose=verbose, **settings)
    classifier.fit(X.iloc[kept], y[kept], checkpoint=folder / CHECKPOINTS)
    run = Run(
        kind="table",
        source=str(file.path),
        target=target,
        classes=[_plain(label) for label in classifier.classes_],
        num_data=len(kept),
        settings={"seed": seed, "test_fraction": test_fraction, "drop": drop, **_used(classifier)},
        history=_history(classifier),
        notes=[
            *notes_of_labels(y, y[held_out], unlabelled),
            *notes_of_columns(X.iloc[kept], almost_numbers(X)),
            *notes_of_training(classifier),
        ],
    )
    save(classifier, folder / MODEL)
    if len(held_out):
        labels = np.searchsorted(classifier.classes_, y[held_out])
        evaluate_rows(HELD_OUT, classifier, X.iloc[held_out], labels, {}, seed).write(folder)
    run.seconds = time.monotonic() - started
    run.write(folder)
    remove_checkpoints(folder)
    return run


def evaluate_rows(
    name: str,
    classifier: FunctionSpaceClassifier,
    X: Any,
    labels: Any,
    ood: dict[str, Any],
    seed: int,
) -> StoredEvaluation:
    """Evaluate a classifier on rows with labels, and on rows from elsewhere.

    Without any, the rows themselves are taken, with every number moved by five of its standard
    deviations, up and down.
    """
    elsewhere = ood or far_away(classifier, X)
    learner = classifier.learner_
    return evaluated(
        name,
        learner.predictions(X),
        labels,
        {key: learner.predictions(rows) for key, rows in elsewhere.items()},
        lambda row: {"row": int(X.index[row]), "values": _values(X.iloc[row])},
        seed,
    )


def evaluate_file(
    name: str,
    run: Run,
    classifier: FunctionSpaceClassifier,
    file: TableFile,
    ood: dict[str, TableFile],
    note: Callable[[str], None],
) -> StoredEvaluation:
    """Evaluate a classifier on a file with the target column, and on files from elsewhere.

    ``note`` is told what a user should know about the data.
    """
    assert run.target is not None
    wanted = [*names_of(classifier), run.target]
    rows = _concat(file, wanted, numbers_of(classifier), run.target)
    X, y, unlabelled = split_target(rows, run.target)
    known = np.array(run.classes)
    # Codes such as 010 may be all numbers here by chance.
    y = y if _whole(run) else rows.loc[X.index, run.target].to_numpy(str)
    strange = sorted(set(y.tolist()) - set(known.tolist()), key=str)
    if strange:
        raise InputError(
            f"{file.path}: the labels {strange[:10]} were not there in training, which had "
            f"{known.tolist()[:10]}."
        )
    labels = np.searchsorted(known, y)
    elsewhere = {
        key: _concat(other, names_of(classifier), numbers_of(classifier))
        for key, other in ood.items()
    }
    if unlabelled:
        note(left_out(unlabelled))
    unseen = Unseen(classifier)
    unseen.add(X)
    for text in unseen.notes():
        note(text)
    return evaluate_rows(name, classifier, X, labels, elsewhere, run.settings["seed"])


def predict_file(
    classifier: FunctionSpaceClassifier, file: TableFile, keep: list[str]
) -> Iterator[tuple[Any, dict[str, Any], Prediction]]:
    """Yield the rows of a file in chunks, each with what is kept of it and its predictions.

    Memory is bounded.

    Args:
        classifier: of the run.
        file: with the columns of the training; others are ignored.
        keep: columns to copy as they are.
    """
    names = names_of(classifier)
    copies: Iterator[Any] = file.copies(keep) if keep else repeat(pd.DataFrame())
    for chunk, kept in zip(file.chunks(names, numbers_of(classifier)), copies, strict=False):
        columns = {name: kept[name].astype(object).to_numpy() for name in keep}
        for prediction in classifier.learner_.predictions(chunk[names]):
            yield chunk, columns, prediction


def far_away(classifier: FunctionSpaceClassifier, X: Any) -> dict[str, Any]:
    """Return the rows with each number moved by five standard deviations of its column.

    All up, and all down: where columns are correlated, these are the directions in which a
    classifier is most sure of itself.
    """
    numbers = numbers_of(classifier)
    if not numbers:
        return {}
    table = classifier.learner_.table
    assert isinstance(table, TableEncoder)
    # Of the training rows: those that are evaluated may be few.
    step = FAR * table.scaler.scale_
    found = {}
    for name, sign in (("up", 1.0), ("down", -1.0)):
        moved = X.copy()
        moved[numbers] = X[numbers] + sign * step
        found[f"{FAR:g} deviations {name}"] = moved
    return found


def names_of(classifier: FunctionSpaceClassifier) -> list[str]:
    """Return the columns that a classifier takes, in order."""
    return list(classifier.feature_names_in_)


def numbers_of(classifier: FunctionSpaceClassifier) -> list[str]:
    """Return those of the columns that hold numbers."""
    names = names_of(classifier)
    categories = set(classifier.learner_.table.categories)
    return [name for position, name in enumerate(names) if position not in categories]


def _concat(file: TableFile, wanted: list[str], numbers: Any, target: str | None = None) -> Any:
    return pd.concat(list(file.chunks(wanted, numbers, target=target)))


def _whole(run: Run) -> bool:
    return all(isinstance(label, int) for label in run.classes)


def _used(classifier: FunctionSpaceClassifier) -> dict[str, Any]:
    """Return the settings of a classifier that was made by the command line."""
    of_the_run = ("random_state", "verbose", "device")
    return {
        name: value for name, value in classifier.get_params().items() if name not in of_the_run
    }


def _history(classifier: FunctionSpaceClassifier) -> dict[str, list[float]]:
    history = {"loss": list(classifier.loss_curve_)}
    scores = vars(classifier).get("validation_scores_")
    return history if scores is None else history | {"validation": [float(s) for s in scores]}


def _values(row: Any) -> dict[str, Any]:
    return {str(name): _plain(value) for name, value in list(row.items())[:SHOWN_VALUES]}


def _plain(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and np.isnan(plain) else plain
