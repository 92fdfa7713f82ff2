"""FunctionSpaceClassifier and MLPClassifier on ten real tables: `python -m benchmarks.tables`.

Prints the mean scores over five folds.
"""

from __future__ import annotations

import argparse
import ast
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
DISTANCE = 5.0


def moved(table: pd.DataFrame, train: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return rows with every number shifted by five standard deviations, up or down at random."""
    table = table.copy()
    for name in table.select_dtypes("number"):
        step = DISTANCE * train[name].std() * rng.choice([-1.0, 1.0], len(table))
        table[name] = table[name] + step
    return table


def entropy(probs: np.ndarray) -> np.ndarray:
    return -(probs * np.log(np.maximum(probs, 1e-30))).sum(1)


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """Return the AUROC with which uncertainty detects rows out of range."""
    labels = np.repeat([0, 1], [len(inside), len(outside)])
    return float(roc_auc_score(labels, np.concatenate([inside, outside])))


def scores(probs: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    result = felbo.score(torch.from_numpy(probs).double(), torch.from_numpy(labels))
    return {"accuracy": result.accuracy, "log-likelihood": result.log_likelihood, "ece": result.ece}


def folds(data: TableSet) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    splits = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(data.table, data.labels)
    for fold, (train, test) in enumerate(splits):
        yield fold, train, test


def compare(data: TableSet, settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the scores of both classifiers on each fold."""
    labels = np.unique(data.labels, return_inverse=True)[1]
    for fold, train, test in folds(data):
        rows, unseen = data.table.iloc[train], data.table.iloc[test]
        far = moved(unseen, rows, np.random.default_rng(fold))
        common = {"set": data.name, "fold": fold}
        ours = FunctionSpaceClassifier(random_state=fold, **settings).fit(rows, data.labels[train])
        inside, outside = (ours.uncertainty(part, "epistemic") for part in (unseen, far))
        yield {
            **common,
            "classifier": "FunctionSpaceClassifier",
            **scores(ours.predict_proba(unseen), labels[test]),
            "epistemic": inside.mean(),
            "epistemic out of range": outside.mean(),
            "auroc": auroc(inside, outside),
            "auroc of total": auroc(ours.uncertainty(unseen), ours.uncertainty(far)),
        }
        encoder = TableEncoder().fit(rows, np.ones(len(rows)))
        theirs = MLPClassifier(tuple(ours.hidden), random_state=fold)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs.fit(encoder.transform(rows), labels[train])
        probs, far_probs = (theirs.predict_proba(encoder.transform(part)) for part in (unseen, far))
        yield {
            **common,
            "classifier": "MLPClassifier",
            **scores(probs, labels[test]),
            "auroc of total": auroc(entropy(probs), entropy(far_probs)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--development", action="store_true")
    parser.add_argument("settings", nargs="*", help="of the classifier, such as strength=0.1")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    settings = {}
    for item in arguments.settings:
        name, value = item.split("=")
        settings[name] = ast.literal_eval(value)
    rows: list[dict[str, Any]] = []
    for load in (DEVELOPMENT if arguments.development else REPORTED).values():
        rows += compare(load(), settings)
    frame = pd.DataFrame(rows)
    print(frame.groupby(["set", "classifier"], sort=False).mean().drop(columns="fold").round(4))


if __name__ == "__main__":
    main()
