"""``fit`` and ``partial_fit`` of the classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

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
from felbo.estimator.rows import Rows, split_rows
from felbo.estimator.stopping import EarlyStopping
from felbo.estimator.tables import NumberTable, TableEncoder, take
from felbo.random import torch_seed

Array = NDArray[Any]


class FittingMixin:
    """Training methods of the classifier."""

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
    validation_fraction: float
    patience: int
    random_state: Any
    device: str
    verbose: bool

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train a new model.

        Args:
            X: table ``[N, D]``: a DataFrame, or a dense or sparse matrix of numbers.
            y: labels ``[N]`` of any type.
            sample_weight: non-negative weight of each row ``[N]``; an integer weight is equivalent
                to that many equal rows.
        """
        X, y, weights = self._checked(X, y, sample_weight, reset=True)
        self.classes_ = checked_classes(y)
        labels = encoded_labels(y, self.classes_)
        seed = self._seed()
        if not self.early_stopping:
            self._begin(X, weights, seed)
            self._train(self._rows(X, labels, weights), self.epochs)
            return self
        train, held_out = split_rows(labels, self.validation_fraction, seed)
        self._begin(take(X, train), weights[train], seed)
        watched = self._rows(take(X, held_out), labels[held_out], weights[held_out])
        stopping = EarlyStopping(self.learner_.model, watched, self.patience, seed)
        rows = self._rows(take(X, train), labels[train], weights[train])
        self._train(rows, self.epochs, stopping)
        self.validation_scores_ = stopping.scores
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train for one more epoch on these rows, after a ``fit`` or from the start.

        The first call builds the model and fits the preprocessing, which later calls keep: its rows
        should be representative.

        Args:
            X: table ``[N, D]``.
            y: labels ``[N]``.
            classes: all possible labels; required in the first call.
            sample_weight: weight of each row ``[N]``.
        """
        first = not hasattr(self, "learner_")
        X, y, weights = self._checked(X, y, sample_weight, reset=first)
        if first:
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self.classes_ = checked_classes(classes)
            self._begin(X, weights, self._seed())
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(
                f"classes={classes!r} is not the same as on the last call to partial_fit, "
                f"{self.classes_.tolist()}."
            )
        self._train(self._rows(X, encoded_labels(y, self.classes_), weights), 1)
        return self

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _table(self, X: Any, *, reset: bool) -> Any:
        if self.preprocessing not in ("auto", None):
            raise ValueError(f"preprocessing must be 'auto' or None, got {self.preprocessing!r}.")
        return checked_table(self, X, encode=self.preprocessing == "auto", reset=reset)

    def _checked(self, X: Any, y: Any, weights: Any, *, reset: bool) -> tuple[Any, Array, Array]:
        """Return table, labels and weights of the rows with a positive weight."""
        X = self._table(X, reset=reset)
        y = checked_labels(y, X)
        weights = checked_weights(weights, len(y))
        kept = np.flatnonzero(weights)
        return take(X, kept), y[kept], weights[kept]

    def _begin(self, X: Any, weights: Array, seed: int) -> None:
        """Fit the preprocessing and build an untrained model."""
        table: Table = TableEncoder() if self.preprocessing == "auto" else NumberTable()
        inputs = table.fit(X, weights).transform(take(X, slice(1))).shape[1]
        sizes = inputs, len(self.classes_)
        with torch_seed(seed):
            model = make_model(self.model, self.network, self.hidden, self.members, *sizes)
        optimizer = make_optimizer(model, self.learning_rate, self.weight_decay)
        self.learner_ = Learner(table, model, optimizer, seed)

    def _rows(self, X: Any, labels: Array, weights: Array) -> Rows:
        return Rows(self.learner_.table.transform(X), labels, weights)

    def _train(self, rows: Rows, epochs: int, stopping: EarlyStopping | None = None) -> None:
        learner = self.learner_
        learner.num_data += float(rows.weights.sum())
        objective = make_objective(
            make_prior(self.prior, self.classes_.tolist(), learner.table),
            learner.num_data,
            self.measurement,
            self.strength,
            self.data_strength,
            None if self.model == "map" else self.members,
        )
        learner.train(
            objective,
            rows.merged(),
            epochs=epochs,
            batch_size=self.batch_size,
            stopping=stopping,
            device=self.device,
            verbose=self.verbose,
        )
        self.n_iter_ = len(learner.losses)
        self.loss_curve_ = learner.losses
