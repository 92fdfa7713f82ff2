"""Scores of a model on validation data, without any effect on its training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from felbo import dirichlet
from felbo.errors import DataError, DivergedError
from felbo.evaluation.labelled import labelled_batches
from felbo.inputs import Inputs, as_inputs, as_labels, check_one_label_each, map_tensors
from felbo.inputs import batch_size as count_items
from felbo.models import unwrap
from felbo.objectives import Objective
from felbo.objectives.checks import check_labels
from felbo.random import torch_seed
from felbo.training.generators import find_objectives, state_kept
from felbo.training.history import ValidationScores
from felbo.training.processes import Processes
from felbo.training.slices import check_sampler
from felbo.training.sources import Data, check_data

# γ of the predictive in the likelihood, as in felbo.score.
SMOOTHING = 1e-4


class Validation:
    """Compute loss, nll and accuracy on validation data.

    It is called with the model in evaluation mode, in which batch normalisation uses its running
    statistics and does not update them. The model's draws are the same in every epoch, and all
    random generators and counters are as before afterwards, also those of the objective and its
    measurement sets.

    Args:
        data: what :func:`felbo.fit` takes as training data.
        model: the classifier, or a wrapper around it; its parameters define device and dtype.
        objective: computes the loss.
        batch_size: items per forward pass of tensors and data sets.
        seed: of the draws.
        processes: divide every batch of tensors and data sets among them. The batches of a loader
            may be in another order on each; there the scores of the first count.
    """

    def __init__(
        self,
        data: Data,
        model: Any,
        objective: Objective,
        batch_size: int,
        seed: int,
        processes: Processes,
    ) -> None:
        check_data(data, "validation")
        if isinstance(data, DataLoader):
            check_sampler(data)
        self.model, self.objective = model, objective
        self.batch_size, self.seed, self.processes = batch_size, seed, processes
        self.data = _as_tensors(data, model) if isinstance(data, tuple | list) else data

    @property
    def divided(self) -> bool:
        """True if each process scores a part of every batch."""
        return not isinstance(self.data, DataLoader)

    @property
    def labels(self) -> Tensor | None:
        """Labels ``[N]`` of tensors; ``None`` for data that are read in batches."""
        return self.data[1] if isinstance(self.data, tuple) else None

    @torch.no_grad()
    def __call__(self) -> ValidationScores:
        """Return the scores of the model with its current weights."""
        sums, items = [], 0
        with torch_seed(self.seed), scoring(self.model, self.objective):
            for x, y in labelled_batches(self.data, self.batch_size, self.model):
                sums.append(self._own_sums(x, y))
                items += len(y)
        if not items:
            raise DataError("The validation data hold no items.")
        total = torch.stack(sums).sum(0)
        total = self.processes.sum(total) if self.divided else self.processes.from_first(total)
        loss, nll, right = (total / items).tolist()
        if not math.isfinite(nll):
            raise DivergedError(
                f"The validation nll became {nll}: do the validation inputs hold NaN or infinity? "
                "If not, try a smaller learning rate, or clip gradients with clip_norm.",
                "validation",
            )
        return ValidationScores(loss, nll, 100.0 * right)

    def _own_sums(self, x: Inputs, y: Tensor) -> Tensor:
        """Return the sums of scores over the own part of a batch."""
        if not self.divided or self.processes.data_ranks == 1:
            return score_sums(self.model, self.objective, x, y)
        own, share = self.processes.share(len(y))
        sums = score_sums(self.model, self.objective, map_tensors(lambda p: p[own], x), y[own])
        return sums if share else torch.zeros_like(sums)


@contextmanager
def scoring(model: nn.Module, objective: Objective) -> Iterator[None]:
    """Context manager: set up an objective for evaluation, and restore its state afterwards."""
    with state_kept(objective):
        for part in find_objectives(objective):
            if part.num_samples is not None:
                part.num_samples = unwrap(model).evaluation_draws(part.num_samples)
        yield


def score_sums(model: Any, objective: Objective, x: Inputs, y: Tensor) -> Tensor:
    """Return loss, nll and number of correct labels of a batch, each summed over its items.

    Args:
        model: in evaluation mode, called without gradients.
        objective: computes the loss.
        x: inputs ``[B, ...]``.
        y: labels ``[B]``.
    """
    device = next(model.parameters()).device
    x, y = map_tensors(lambda part: part.to(device), x), y.to(device)
    probs = model(x).double().softmax(-1).mean(0)
    check_labels(y, *probs.shape)
    picked = dirichlet.smooth(probs, SMOOTHING).gather(-1, y[:, None])
    loss = objective(model, x, y).total.double()
    return torch.stack([len(y) * loss, -picked.log().sum(), (probs.argmax(-1) == y).sum()])


def _as_tensors(data: Any, model: nn.Module) -> tuple[Any, Tensor]:
    """Convert a pair of arrays to tensors on the model's device, once for all epochs."""
    parameter = next(p for p in model.parameters() if p.is_floating_point())
    x, y = as_inputs(data[0], parameter.dtype), as_labels(data[1])
    check_one_label_each(y, count_items(x))
    return map_tensors(lambda part: part.to(parameter.device), x), y.to(parameter.device)
