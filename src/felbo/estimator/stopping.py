"""Early stopping: end a training when held-out rows gain no more from it."""

from __future__ import annotations

import numpy as np
import torch

from felbo.estimator.rows import Rows
from felbo.evaluation.predict import predict
from felbo.models import StochasticClassifier
from felbo.models.modes import evaluation_mode
from felbo.objectives import Objective
from felbo.random import torch_seed


class Stop(Exception):  # noqa: N818  not an error
    """Raised from ``on_epoch`` to end a training."""


class EarlyStopping:
    """Ends a training when the bound on held-out rows has not risen for some epochs.

    The bound is their log-likelihood under the mean prediction, less the weighted KL from the prior
    at the points that belong to them. With the likelihood alone, small tables would often stop
    before the prior has had an effect where there are no data.

    Args:
        model: what is trained.
        objective: what is minimised; gives the KL.
        held_out: rows that are not trained on.
        patience: epochs without a rise.
        seed: of draws and points, the same in every epoch.

    Attributes:
        scores: the bound after each epoch, in nats per row.
    """

    def __init__(
        self,
        model: StochasticClassifier,
        objective: Objective,
        held_out: Rows,
        patience: int,
        seed: int,
    ) -> None:
        if patience < 1:
            raise ValueError(f"patience must be at least 1 epoch, got {patience}.")
        self.model, self.objective = model, objective
        self.held_out = held_out
        self.patience, self.seed = patience, seed
        self.scores: list[float] = []

    def __call__(self) -> None:
        """Score the held-out rows; raise :class:`Stop` if that was in vain for too long."""
        self.scores.append(self._log_likelihood() - self._kl())
        if len(self.scores) - 1 - int(np.argmax(self.scores)) >= self.patience:
            raise Stop

    def _log_likelihood(self) -> float:
        features, labels, weights = self.held_out
        probs = predict(self.model, torch.from_numpy(features), seed=self.seed).probs.cpu().numpy()
        # Smoothed as in felbo.score, so that one confident mistake does not decide alone.
        likelihood = (1 - 1e-4) * probs[np.arange(len(labels)), labels] + 1e-4 / probs.shape[1]
        return float(np.average(np.log(likelihood), weights=weights))

    @torch.no_grad()
    def _kl(self) -> float:
        """Return the KL from the prior, the terms weighted as in training."""
        device = next(self.model.parameters()).device
        (x, weights), y = self.held_out.tensors()
        x, weights, y = x.to(device), weights.to(device), y.to(device)
        with evaluation_mode([self.model]), torch_seed(self.seed):
            return float(self.objective(self.model, (x, weights), y).kl)
