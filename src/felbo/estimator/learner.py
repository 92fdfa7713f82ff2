"""What a fit has learnt, and how it learns more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim import Optimizer

from felbo.estimator.averaging import MeanWeights
from felbo.estimator.building import Table, fabric_for
from felbo.estimator.rows import Rows, as_loader
from felbo.estimator.tables import take
from felbo.evaluation import Prediction, predict
from felbo.models import StochasticClassifier, Tempered
from felbo.objectives import Objective
from felbo.training import Checkpoint, Epoch, Training, fit, train
from felbo.training.history import Scorer

# Rows that are encoded and predicted at a time, which bounds the memory that it takes.
CHUNK = 8192


@dataclass
class Learner:
    """Preprocessing, model and the state of its training.

    Attributes:
        table: from rows of a table to features.
        model: from features to draws of logits.
        optimizer: of the model's parameters; goes on where it stopped.
        seed: of training and prediction.
        num_data: rows seen, by weight: the largest precision of a prediction.
        losses: mean loss of each epoch.
    """

    table: Table
    model: StochasticClassifier
    optimizer: Optimizer
    seed: int
    num_data: float = 0.0
    losses: list[float] = field(default_factory=list)

    def train(
        self,
        objective: Objective,
        rows: Rows,
        *,
        epochs: int,
        batch_size: int | None,
        device: str = "cpu",
        verbose: bool = False,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Take some epochs more; the weights are then the mean over the last third of them."""
        before = len(self.losses)
        mean = MeanWeights(self.model, epochs)

        def on_epoch(epoch: Epoch) -> None:
            self.losses.append(epoch.total)

        history = fit(
            self.model.float(),
            objective,
            as_loader(rows, batch_size),
            epochs=epochs,
            optimizer=self.optimizer,
            scheduler=lambda optimizer: mean,
            # Another one in every call, so that epochs are not copies of each other.
            seed=self.seed + before,
            fabric=fabric_for(device),
            progress=verbose,
            on_epoch=on_epoch,
            checkpoint=checkpoint,
        )
        # Also of the epochs before a training was interrupted.
        self.losses[before:] = history.total
        # In float32, rounding would make the prediction for a row depend on the rows beside it.
        self.model.double()
        mean.apply()

    def training(
        self,
        objective: Objective,
        rows: Rows,
        *,
        epochs: int,
        batch_size: int | None,
        device: str = "cpu",
        scheduler: Any = None,
        validation: Scorer | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Training:
        """Return a training of the untrained model, epoch by epoch."""
        return train(
            self.model,
            objective,
            as_loader(rows, batch_size),
            epochs=epochs,
            optimizer=self.optimizer,
            scheduler=None if scheduler is None else lambda optimizer: scheduler,
            seed=self.seed,
            fabric=fabric_for(device),
            validation=validation,
            checkpoint=checkpoint,
        )

    @property
    def temperature(self) -> float:
        """Temperature that the logits are divided by."""
        return float(self.model.temperature) if isinstance(self.model, Tempered) else 1.0

    def temper(self, temperature: float) -> None:
        """Divide the logits of all draws by a temperature."""
        if temperature != 1.0:
            self.model = Tempered(self.model, temperature).double()

    def predictions(self, X: Any) -> Iterator[Prediction]:
        """Yield predictions for the rows of a table, a chunk at a time.

        All chunks have the same draws of the model, so that the prediction for a row depends on
        nothing but the row.
        """
        for start in range(0, X.shape[0], CHUNK):
            rows = take(X, slice(start, start + CHUNK))
            yield predict(
                self.model,
                torch.from_numpy(self.table.transform(rows)).double(),
                num_data=max(1, round(self.num_data)),
                batch_size=CHUNK,
                seed=self.seed,
            )
