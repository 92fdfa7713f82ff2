"""How a classifier learns from a table: ``fit`` and ``partial_fit``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from felbo.errors import SettingError
from felbo.estimator.building import (
    MakeNetwork,
    Table,
    make_model,
    make_objective,
    make_optimizer,
    make_prior,
)
from felbo.estimator.checks import (
    checked_classes,
    checked_labels,
    checked_table,
    checked_weights,
    encoded_labels,
)
from felbo.estimator.learner import Learner
from felbo.estimator.rows import Rows
from felbo.estimator.stopping import HeldOutBound, mean_bounds
from felbo.estimator.tables import NumberTable, TableEncoder, take
from felbo.estimator.temperature import TemperatureCurves, most_probable_temperature
from felbo.objectives import Objective
from felbo.random import torch_seed
from felbo.training import Checkpoint, Training
from felbo.training.checkpoint import CheckpointFolder
from felbo.training.progress import progress_bar

Array = NDArray[Any]

# The log-likelihood of fewer rows says too little about when to stop.
FEWEST_HELD_OUT = 10
# With fewer in one split, several are taken: the best epoch by few rows is mostly chance.
MANY_HELD_OUT = 200
# With fewer in all splits, so is a temperature.
ENOUGH_TO_CALIBRATE = 1000
# Between two checkpoints; an epoch on a small table takes less than writing one.
SECONDS = 5.0


class Search(NamedTuple):
    """A training on some of the rows, and what it says about temperatures of the others."""

    training: Training
    temperatures: TemperatureCurves


class FittingMixin:
    """The methods of a classifier that train its model, by the parameters of the constructor."""

    model: str
    prior: Any
    hidden: Sequence[int]
    network: MakeNetwork | None
    members: int
    epochs: int
    batch_size: int | None
    learning_rate: float
    weight_decay: float
    strength: float
    data_strength: float
    measurement: Any
    preprocessing: str | None
    early_stopping: bool
    calibrate: bool
    validation_fraction: float
    patience: int
    random_state: Any
    device: str
    verbose: bool

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Train a new model.

        Args:
            X: table ``[N, D]``: a DataFrame, or a dense or sparse matrix of numbers.
            y: labels ``[N]`` of any type.
            sample_weight: how much each row counts ``[N]``, not negative. Whole numbers count as
                that many equal rows; others are relative, and scaled to a mean of one.
            checkpoint: folder in which the trainings are saved every few seconds. After an
                interruption, ``fit`` called in the same way, with a number as ``random_state``,
                goes on from there and ends with the same model.
        """
        X, y, weights = self._checked(X, y, sample_weight, reset=True)
        self.classes_ = checked_classes(y)
        self._begin(X, weights)
        rows = self._rows(X, y, weights)
        folder = None if checkpoint is None else Path(checkpoint)
        with nullcontext() if folder is None else CheckpointFolder(folder).locked():
            epochs, temperature = self.epochs, 1.0
            vars(self).pop("validation_scores_", None)  # of a fit before this one
            if self._holds_out(rows):
                epochs, temperature = self._early_stopping(rows, folder)
            self._train(rows, epochs, _part(folder, "all"))
        self.learner_.temper(temperature)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train for one more epoch on these rows, after a ``fit`` or from the start.

        The first call makes the model and the preprocessing, which the later ones keep: give it
        rows that are typical for all.

        Args:
            X: table ``[N, D]``.
            y: labels ``[N]``.
            classes: all labels that can come; needed in the first call.
            sample_weight: how much each row counts ``[N]``.
        """
        first = not hasattr(self, "learner_")
        X, y, weights = self._checked(X, y, sample_weight, reset=first)
        if first:
            if classes is None:
                raise SettingError("classes must be passed on the first call to partial_fit.")
            self.classes_ = checked_classes(classes)
            self._begin(X, weights)
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise SettingError(
                f"classes={classes!r} is not the same as on the last call to partial_fit, "
                f"{self.classes_.tolist()}."
            )
        self._train(self._rows(X, y, weights), epochs=1)
        return self

    def _table(self, X: Any, *, reset: bool) -> Any:
        if self.preprocessing not in ("auto", None):
            raise SettingError(f"preprocessing must be 'auto' or None, got {self.preprocessing!r}.")
        return checked_table(self, X, encode=self.preprocessing == "auto", reset=reset)

    def _checked(self, X: Any, y: Any, weights: Any, *, reset: bool) -> tuple[Any, Array, Array]:
        """Return table, labels and weights of the rows that count."""
        X = self._table(X, reset=reset)
        y = checked_labels(y, X)
        weights = checked_weights(weights, len(y))
        kept = np.flatnonzero(weights)
        return take(X, kept), y[kept], weights[kept]

    def _begin(self, X: Any, weights: Array) -> None:
        """Make the preprocessing and an untrained model."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        table: Table = TableEncoder() if self.preprocessing == "auto" else NumberTable()
        inputs = table.fit(X, weights).transform(take(X, slice(1))).shape[1]
        self.learner_ = self._untrained(table, inputs, seed)

    def _untrained(self, table: Table, inputs: int, seed: int) -> Learner:
        """Return an untrained model for features ``[·, inputs]``."""
        sizes = inputs, len(self.classes_)
        with torch_seed(seed):
            model = make_model(self.model, self.network, self.hidden, self.members, *sizes)
        optimizer = make_optimizer(model, self.learning_rate, self.weight_decay)
        return Learner(table, model, optimizer, seed)

    def _rows(self, X: Any, y: Array, weights: Array) -> Rows:
        features = self.learner_.table.transform(X)
        return Rows(features, encoded_labels(y, self.classes_), weights).merged()

    def _holds_out(self, rows: Rows) -> bool:
        if not self.early_stopping:
            return False
        if not 0.0 < self.validation_fraction < 1.0:
            raise SettingError(
                f"validation_fraction must lie between 0 and 1, got {self.validation_fraction}."
            )
        return self.validation_fraction * float(rows.weights.sum()) >= FEWEST_HELD_OUT

    def _early_stopping(self, rows: Rows, checkpoints: Path | None) -> tuple[int, float]:
        """Return how many epochs to train for, and the temperature of what is trained.

        After these epochs the bound on rows held out is highest. The temperature is that of the
        most likely labels of these rows; it is 1 where all splits together hold out too few.
        """
        held_out = self.validation_fraction * float(rows.weights.sum())
        possible = round(1 / self.validation_fraction)
        splits = math.ceil(ENOUGH_TO_CALIBRATE / held_out)
        calibrated = self.calibrate and splits <= possible
        if not calibrated:
            splits = min(math.ceil(MANY_HELD_OUT / held_out), possible)
        searches = [
            self._search(
                *rows.split(self.validation_fraction, self.learner_.seed, fold),
                calibrated,
                _part(checkpoints, f"split-{fold}"),
            )
            for fold in range(splits)
        ]
        with progress_bar(self.epochs, self.verbose) as show:
            self.validation_scores_ = mean_bounds(
                [search.training for search in searches], self.patience, show
            )
        best = int(np.argmax(self.validation_scores_))
        if not calibrated:
            return best + 1, 1.0
        curves = [search.temperatures.curves[best] for search in searches]
        return best + 1, most_probable_temperature(curves)

    def _search(
        self, kept: Rows, held_out: Rows, calibrated: bool, checkpoint: Checkpoint | None
    ) -> Search:
        """Return a training on some rows that is validated by the bound on the others."""
        seed = self.learner_.seed
        learner = self._untrained(self.learner_.table, kept.features.shape[1], seed)
        objective = self._objective(float(kept.weights.sum()))
        some = held_out.some(ENOUGH_TO_CALIBRATE, seed)
        temperatures = TemperatureCurves(learner.model, some, seed)
        training = learner.training(
            objective,
            kept,
            epochs=self.epochs,
            batch_size=self.batch_size,
            device=self.device,
            scheduler=temperatures if calibrated else None,
            validation=HeldOutBound(learner.model, objective, held_out, seed),
            checkpoint=checkpoint,
        )
        return Search(training, temperatures)

    def _objective(self, num_data: float) -> Objective:
        return make_objective(
            make_prior(self.prior, self.classes_.tolist(), self.learner_.table),
            num_data,
            self.measurement,
            self.strength,
            self.data_strength,
            None if self.model == "map" else self.members,
        )

    def _train(self, rows: Rows, epochs: int, checkpoint: Checkpoint | None = None) -> None:
        learner = self.learner_
        learner.num_data += float(rows.weights.sum())
        learner.train(
            self._objective(learner.num_data),
            rows,
            epochs=epochs,
            batch_size=self.batch_size,
            device=self.device,
            verbose=self.verbose,
            checkpoint=checkpoint,
        )
        self.n_iter_ = len(learner.losses)
        self.loss_curve_ = learner.losses


def _part(folder: Path | None, name: str) -> Checkpoint | None:
    """Return where one of the trainings of a fit is saved."""
    return None if folder is None else Checkpoint(folder / name, SECONDS, every_epoch=False)
