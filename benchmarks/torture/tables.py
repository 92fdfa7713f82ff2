"""Trainings of the classifier for tables, drawn at random: a search over splits, then all rows."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

import felbo
from felbo.estimator import FunctionSpaceClassifier, fitting
from felbo.estimator.building import MODELS


class TableTraining:
    """A fit whose settings are drawn from a seed.

    Args:
        seed: of the choice of settings.
    """

    def __init__(self, seed: int) -> None:
        source = random.Random(seed)
        self.model = source.choice(list(MODELS))
        self.early_stopping = source.random() < 0.8
        self.fraction = source.choice([0.2, 0.4])
        self.patience = source.choice([1, 3, 20])
        self.batch_size = source.choice([16, None])
        self.seconds = source.choice([0.0, 0.02, 1e9])

    def __str__(self) -> str:
        return f"table, {', '.join(f'{name}={value}' for name, value in vars(self).items())}"

    def run(self, folder: Path, out: Path) -> None:
        """Fit from the last checkpoints in a folder to the end; write model and history."""
        fitting.SECONDS = self.seconds  # in this process, which is a fork
        numbers = np.random.default_rng(0)
        rows = numbers.normal(size=(60, 3))
        labels = (rows[:, 0] + numbers.normal(size=60) > 0).astype(int)
        classifier = FunctionSpaceClassifier(
            self.model,
            hidden=(8,),
            members=2,
            epochs=8,
            batch_size=self.batch_size,
            learning_rate=0.05,
            early_stopping=self.early_stopping,
            validation_fraction=self.fraction,
            patience=self.patience,
            random_state=0,
        )
        classifier.fit(rows, labels, checkpoint=folder)
        felbo.save(classifier, out)
        scores = vars(classifier).get("validation_scores_")
        out.with_suffix(".txt").write_text(repr((classifier.loss_curve_, scores)))
