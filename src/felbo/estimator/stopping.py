"""Early stopping: the number of epochs from which rows held out gain the most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing

import numpy as np
import torch

from felbo._numbers import refuse_booleans
from felbo.errors import SettingError
from felbo.estimator.rows import Rows
from felbo.evaluation.predict import predict
from felbo.models import StochasticClassifier
from felbo.models.modes import evaluation_mode
from felbo.objectives import Objective
from felbo.random import torch_seed
from felbo.training import Epoch, Training, ValidationScores


class HeldOutBound:
    """The bound on rows that are not trained on, in nats per row.

    It is their log-likelihood under the mean prediction, less the weighted KL from the prior at the
    points that belong to them. With the likelihood alone, small tables would often stop before the
    prior has had an effect where there are no data.

    Args:
        model: what is trained.
        objective: what is minimised; gives the KL.
        held_out: the rows.
        seed: of draws and points, the same in every call.
    """

    def __init__(
        self, model: StochasticClassifier, objective: Objective, held_out: Rows, seed: int
    ) -> None:
        self.model, self.objective = model, objective
        self.held_out, self.seed = held_out, seed

    def __call__(self) -> ValidationScores:
        """Return the scores of the model as it is; the bound is −``loss``."""
        features, labels, weights = self.held_out
        probs = predict(self.model, torch.from_numpy(features), seed=self.seed).probs.cpu().numpy()
        # Smoothed as in felbo.score, so that one confident mistake does not decide alone.
        likelihood = (1 - 1e-4) * probs[np.arange(len(labels)), labels] + 1e-4 / probs.shape[1]
        nll = -float(np.average(np.log(likelihood), weights=weights))
        accuracy = 100.0 * float(np.average(probs.argmax(1) == labels, weights=weights))
        return ValidationScores(nll + self._kl(), nll, accuracy)

    @torch.no_grad()
    def _kl(self) -> float:
        """Return the KL from the prior, the terms weighted as in training."""
        device = next(self.model.parameters()).device
        (x, weights), y = self.held_out.tensors()
        x, weights, y = x.to(device), weights.to(device), y.to(device)
        with evaluation_mode([self.model]), torch_seed(self.seed):
            return float(self.objective(self.model, (x, weights), y).kl)


def mean_bounds(
    folds: Sequence[Training],
    patience: int,
    show: Callable[[Epoch], None] = lambda epoch: None,
) -> list[float]:
    """Train on all folds in step, until their mean bound has not risen for some epochs.

    Args:
        folds: trainings that are validated by :class:`HeldOutBound`; those that were interrupted
            may have got further than others.
        patience: epochs without a rise.
        show: called with every epoch of the first fold.

    Returns:
        The mean bound after each epoch.
    """
    refuse_booleans(patience=patience)
    if patience < 1:
        raise SettingError(f"patience must be at least 1 epoch, got {patience}.")
    bounds: list[float] = []
    with ExitStack() as stack:
        for fold in folds:
            stack.enter_context(closing(fold))
        while all(_has_reached(fold, len(bounds)) for fold in folds):
            show(folds[0].history.epochs[len(bounds)])
            losses = [fold.history.validation[len(bounds)].loss for fold in folds]
            bounds.append(-float(np.mean(losses)))
            if len(bounds) - 1 - int(np.argmax(bounds)) >= patience:
                break
    return bounds


def _has_reached(training: Training, number: int) -> bool:
    """Train until an epoch is finished; False if there is no such epoch."""
    if len(training.history) <= number:
        next(training, None)  # the first one also takes up the epochs before an interruption
    return len(training.history) > number
