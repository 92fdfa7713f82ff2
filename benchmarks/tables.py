"""FunctionSpaceClassifier and MLPClassifier on ten real tables: `python -m benchmarks.tables`.

Writes `results/tables.csv` and the table in `docs/tables.md`.
"""

from __future__ import annotations

import argparse
import ast
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier

import felbo
from benchmarks.tabular_sets import DEVELOPMENT, REPORTED, TableSet
from felbo.estimator import FunctionSpaceClassifier
from felbo.estimator.tables import TableEncoder

ROOT = Path(__file__).resolve().parents[1]
FOLDS = 5
REPETITIONS = 5
DISTANCE = 5.0

# Functions from rows to probabilities, and to how uncertain they are.
Classifier = tuple[Callable[[pd.DataFrame], np.ndarray], Callable[[pd.DataFrame], np.ndarray]]


def moved(table: pd.DataFrame, train: pd.DataFrame, fold: int) -> Iterator[pd.DataFrame]:
    """Yield the rows with every number moved by five standard deviations, in three ways.

    Up or down at random for each number; all up; all down. The last two are where correlated
    columns lead, and so where a classifier is most sure of itself.
    """
    rng = np.random.default_rng(fold)
    at_random = lambda: rng.choice([-1.0, 1.0], len(table))  # noqa: E731
    for sign in (at_random, lambda: 1.0, lambda: -1.0):
        far = table.copy()
        for name in table.select_dtypes("number"):
            far[name] = table[name] + DISTANCE * train[name].std() * sign()
        yield far


def entropy(probs: np.ndarray) -> np.ndarray:
    return -(probs * np.log(np.maximum(probs, 1e-30))).sum(1)


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """Return the AUROC with which uncertainty detects rows out of range."""
    labels = np.repeat([0, 1], [len(inside), len(outside)])
    return float(roc_auc_score(labels, np.concatenate([inside, outside])))


def ours(rows: pd.DataFrame, y: np.ndarray, fold: int, settings: dict[str, Any]) -> Classifier:
    """Train the classifier; return its probabilities and its uncertainty, as functions of rows."""
    classifier = FunctionSpaceClassifier(random_state=fold, **settings).fit(rows, y)
    return classifier.predict_proba, lambda rows: classifier.uncertainty(rows, "epistemic")


def theirs(rows: pd.DataFrame, y: np.ndarray, fold: int, settings: dict[str, Any]) -> Classifier:
    """Train scikit-learn's perceptron of the same size on the same features, as it comes."""
    encoder = TableEncoder().fit(rows, np.ones(len(rows)))
    hidden = FunctionSpaceClassifier(**settings).hidden
    network = MLPClassifier(hidden, random_state=fold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(encoder.transform(rows), y)
    probs = lambda rows: network.predict_proba(encoder.transform(rows))  # noqa: E731
    return probs, lambda rows: entropy(probs(rows))


CLASSIFIERS = {"FunctionSpaceClassifier": ours, "MLPClassifier": theirs}


def folds(table: pd.DataFrame, labels: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield training and test rows, five folds of each of five shuffles."""
    for shuffle in range(REPETITIONS):
        yield from StratifiedKFold(FOLDS, shuffle=True, random_state=shuffle).split(table, labels)


def compare(data: TableSet, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the scores of both classifiers on each fold of every repetition."""
    torch.set_num_threads(1)
    print(data.name, flush=True)
    return list(_scores(data, settings))


def _scores(data: TableSet, settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    labels = np.unique(data.labels, return_inverse=True)[1]
    for fold, (train, test) in enumerate(folds(data.table, labels)):
        rows, unseen = data.table.iloc[train], data.table.iloc[test]
        far = list(moved(unseen, rows, fold))
        for name, fit in CLASSIFIERS.items():
            probs, uncertainty = fit(rows, labels[train], fold, settings)
            inside, outside = uncertainty(unseen), [uncertainty(part) for part in far]
            result = felbo.score(torch.from_numpy(probs(unseen)), torch.from_numpy(labels[test]))
            yield {
                "set": data.name,
                "package": data.package,
                "rows": len(labels),
                "columns": data.table.shape[1],
                "classes": labels.max() + 1,
                "fold": fold,
                "classifier": name,
                "accuracy": result.accuracy,
                "log-likelihood": result.log_likelihood,
                "ece": result.ece,
                "in range": inside.mean(),
                "out of range": min(part.mean() for part in outside),
                "auroc": min(auroc(inside, part) for part in outside),
            }


def sides(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the means over folds of both classifiers, one row per set."""
    means = frame.drop(columns=["package", "fold"]).groupby(["classifier", "set"], sort=False)
    both = means.mean()
    return both.loc["FunctionSpaceClassifier"], both.loc["MLPClassifier"]


def differences(frame: pd.DataFrame) -> pd.DataFrame:
    """Return by how much ours is more likely, its mean and standard error, per set.

    Folds have training rows in common. Their variance counts as 1 / n + 1 / (FOLDS − 1) of that of
    one fold in place of 1 / n (Nadeau and Bengio, 2003, "Inference for the Generalization Error").
    """
    ours, theirs = (
        frame[frame["classifier"] == name].set_index(["set", "fold"])["log-likelihood"]
        for name in CLASSIFIERS
    )
    found = (ours - theirs).groupby("set", sort=False).agg(["mean", "std", "count"])
    found["error"] = found["std"] * np.sqrt(1 / found["count"] + 1 / (FOLDS - 1))
    return found


def page(frame: pd.DataFrame) -> str:
    """Return the table of the page; what falls short of its goal is bold."""
    lines = [
        "| set | rows × columns, classes | log-likelihood | of MLP | difference | ECE | of MLP "
        "| epistemic | out of range | AUROC |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    apart = differences(frame)
    for name, (our, their) in _pairs(frame):
        reached = goals(our, their)
        likelihood, ece, far = (
            text if good else f"**{text}**"
            for text, good in zip(
                (f"{our['log-likelihood']:.3f}", f"{our['ece']:.3f}", f"{our['out of range']:.3f}"),
                reached,
                strict=True,
            )
        )
        lines.append(
            f"| {name} | {our['rows']:.0f} × {our['columns']:.0f}, {our['classes']:.0f} "
            f"| {likelihood} | {their['log-likelihood']:.3f} "
            f"| {apart['mean'][name]:+.3f} ± {apart['error'][name]:.3f} "
            f"| {ece} | {their['ece']:.3f} "
            f"| {our['in range']:.3f} | {far} | {our['auroc']:.3f} |"
        )
    counts = np.sum([goals(*pair) for _, pair in _pairs(frame)], axis=0)
    total = len(list(_pairs(frame)))
    lines += [
        "",
        f"Log-likelihood at least that of `MLPClassifier`: {counts[0]} of {total}. ECE at most 1.5 "
        f"times: {counts[1]} of {total}. Epistemic uncertainty rises out of range: {counts[2]} of "
        f"{total}. Bold is what falls short.",
        "",
        remarks(frame),
    ]
    return "\n".join(lines)


def remarks(frame: pd.DataFrame) -> str:
    """Return a table of what the first one does not show."""
    lines = [
        "| set | shuffles ahead in log-likelihood | ECE, relative to MLP | accuracy, points more "
        "than MLP | lowest AUROC of a fold |",
        "|---|---|---|---|---|",
    ]
    shuffles = [part for _, part in frame.groupby(frame["fold"] // FOLDS)]
    for name, (our, their) in _pairs(frame):
        ahead = sum(goals(*dict(_pairs(part))[name])[0] for part in shuffles)
        folds = frame[(frame["set"] == name) & (frame["classifier"] == "FunctionSpaceClassifier")]
        lines.append(
            f"| {name} | {ahead} of {len(shuffles)} | {our['ece'] / their['ece']:.2f} "
            f"| {our['accuracy'] - their['accuracy']:+.2f} | {folds['auroc'].min():.2f} |"
        )
    return "\n".join(lines)


def goals(our: pd.Series, their: pd.Series) -> tuple[bool, bool, bool]:
    """Return whether log-likelihood, calibration and uncertainty out of range are as good."""
    return (
        our["log-likelihood"] >= their["log-likelihood"],
        our["ece"] <= 1.5 * their["ece"],
        our["out of range"] > our["in range"],
    )


def _pairs(frame: pd.DataFrame) -> Iterator[tuple[str, tuple[pd.Series, pd.Series]]]:
    ours, theirs = sides(frame)
    for name in ours.index:
        yield name, (ours.loc[name], theirs.loc[name])


def write(frame: pd.DataFrame) -> None:
    """Write all folds to a file, and their means into the page between its two markers."""
    frame.round(5).to_csv(ROOT / "results" / "tables.csv", index=False)
    path = ROOT / "docs" / "tables.md"
    text = path.read_text(encoding="utf-8")
    begin, end = "<!-- begin: tables -->", "<!-- end: tables -->"
    before, after = text.split(begin)[0], text.split(end)[1]
    path.write_text(f"{before}{begin}\n{page(frame)}\n{end}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument(
        "--development",
        action="store_true",
        help="the sets that defaults were chosen on; prints the table and writes nothing",
    )
    parser.add_argument(
        "--sets", nargs="+", help="names of some sets; prints the table and writes nothing"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes, with one thread each")
    parser.add_argument("settings", nargs="*", help="of the classifier, such as strength=0.1")
    arguments = parser.parse_args()
    pairs = (item.split("=") for item in arguments.settings)
    settings = {name: ast.literal_eval(value) for name, value in pairs}
    sets = DEVELOPMENT if arguments.development else REPORTED
    parts = joblib.Parallel(arguments.jobs)(
        joblib.delayed(compare)(sets[name](), settings) for name in arguments.sets or sets
    )
    frame = pd.DataFrame([row for part in parts for row in part])
    print(page(frame))
    if not (arguments.development or arguments.sets or settings):
        write(frame)


if __name__ == "__main__":
    main()
