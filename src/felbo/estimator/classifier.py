"""A scikit-learn classifier that knows what it does not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from felbo.estimator.building import MakeNetwork, make_model, make_objective, make_prior
from felbo.estimator.checks import (
    checked_classes,
    checked_labels,
    checked_table,
    checked_weights,
    encoded_labels,
)
from felbo.estimator.learner import Learner, make_optimizer
from felbo.estimator.predicting import PredictingMixin
from felbo.estimator.rows import Rows, split_rows
from felbo.estimator.stopping import EarlyStopping
from felbo.estimator.tables import NumberTable, TableEncoder, take
from felbo.measurement import MeasurementSet
from felbo.objectives.checks import check_choice
from felbo.random import torch_seed

Array = NDArray[Any]


class FunctionSpaceClassifier(PredictingMixin, BaseEstimator):  # type: ignore[misc]
    """TODO."""

    def __init__(
        self,
        model: str = "ensemble",
        prior: Any = "uniform",
        *,
        hidden: Sequence[int] = (50, 50),
        network: MakeNetwork | None = None,
        members: int = 5,
        epochs: int = 100,
        batch_size: int | None = 32,
        learning_rate: float = 0.003,
        weight_decay: float = 0.0,
        strength: float = 0.03,
        data_strength: float = 0.0,
        measurement: str | MeasurementSet | Callable[..., Any] = "elsewhere",
        preprocessing: Literal["auto"] | None = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        random_state: Any = None,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.prior = prior
        self.hidden = hidden
        self.network = network
        self.members = members
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.strength = strength
        self.data_strength = data_strength
        self.measurement = measurement
        self.preprocessing = preprocessing
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train a new model.

        Args:
            X: table ``[N, D]``: a DataFrame, or a dense or sparse matrix of numbers.
            y: labels ``[N]`` of any type.
            sample_weight: how much each row counts ``[N]``, not negative; an integer counts as
                that many equal rows.
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
        check_choice("preprocessing", self.preprocessing, ["auto", None])
        return checked_table(self, X, encode=self.preprocessing == "auto", reset=reset)

    def _checked(self, X: Any, y: Any, weights: Any, *, reset: bool) -> tuple[Any, Array, Array]:
        """Return table, labels and weights of the rows that count."""
        X = self._table(X, reset=reset)
        y = checked_labels(y, X)
        weights = checked_weights(weights, len(y))
        kept = np.flatnonzero(weights)
        return take(X, kept), y[kept], weights[kept]

    def _begin(self, X: Any, weights: Array, seed: int) -> None:
        """Make the preprocessing and an untrained model."""
        table = TableEncoder() if self.preprocessing == "auto" else NumberTable()
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.preprocessing == "auto"
        return tags
