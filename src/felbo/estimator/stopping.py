"""Early stopping: the number of epochs from which rows held out gain the most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing

import numpy as np
import torch

from felbo.estimator.rows import Rows
from felbo.evaluation.predict import predict
from felbo.models import StochasticClassifier
from felbo.models.modes import evaluation_mode
from felbo.objectives import Objective
from felbo.random import torch_seed
from felbo.training import Epoch, Training


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

    def __call__(self) -> float:
        """Return the bound for the model as it is."""
        return self._log_likelihood() - self._kl()

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


def mean_scores(
    folds: Sequence[tuple[Training, Callable[[], float]]],
    patience: int,
    show: Callable[[Epoch], None] = lambda epoch: None,
) -> list[float]:
    """Train on all folds in step, until their mean score has not risen for some epochs.

    Args:
        folds: trainings, each with a function that scores its model.
        patience: epochs without a rise.
        show: called with every epoch of the first fold.

    Returns:
        The mean score after each epoch.
    """
    if patience < 1:
        raise ValueError(f"patience must be at least 1 epoch, got {patience}.")
    scores: list[float] = []
    with ExitStack() as stack:
        for training, _ in folds:
            stack.enter_context(closing(training))
        for epoch in _in_step([training for training, _ in folds]):
            show(epoch)
            scores.append(float(np.mean([score() for _, score in folds])))
            if len(scores) - 1 - int(np.argmax(scores)) >= patience:
                break
    return scores


def _in_step(trainings: Sequence[Training]) -> Iterator[Epoch]:
    """Yield the epochs of the first training, each after all have reached it."""
    for epochs in zip(*trainings, strict=True):
        yield epochs[0]
