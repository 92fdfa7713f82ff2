"""Sizes of the optimiser steps of a ``Trainer``: what the prior's weight depends on."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from felbo.models import StochasticClassifier
from felbo.objectives import Objective
from felbo.training.checks import check_accumulation, check_last_batch
from felbo.training.size import items_per_step
from felbo.training.sources import LoaderBatches


class Steps:
    """Batches and items of the optimiser steps of an epoch.

    Args:
        loader: what the trainer reads; sizes are known for a ``DataLoader`` with a batch size.
        accumulate: batches per optimiser step (``accumulate_grad_batches``).
        batches: batches of the epoch, which ``limit_train_batches`` may lower; infinite if unknown.
    """

    def __init__(self, loader: Any, accumulate: int, batches: float) -> None:
        self.sizes = LoaderBatches(loader, None) if isinstance(loader, DataLoader) else None
        self.accumulate, self.batches = accumulate, batches

    def begin(self, model: StochasticClassifier, objective: Objective, world_size: int) -> None:
        """Set the items per step of an objective; raise if a step could not be taken."""
        if self.sizes is None:
            return
        check_last_batch(model, objective, self.sizes)
        check_accumulation(self.accumulate, objective, self.sizes)
        objective.begin(world_size * items_per_step(self.sizes, self.accumulate))

    def factor(self, index: int) -> float:
        """Return the factor of the loss of a batch, by its index in the epoch.

        Lightning divides the loss by the number of accumulated batches. With this factor the
        weight of a batch is its share of the items of the step, also where the last step of an
        epoch has fewer batches, or its last batch fewer items.
        """
        if self.accumulate == 1 or self.sizes is None or self.sizes.size is None:
            return 1.0
        first = index - index % self.accumulate
        end = int(min(first + self.accumulate, self.batches))
        items = sum(self._items(i) for i in range(first, end))
        return self.accumulate * self._items(index) / items

    def _items(self, index: int) -> int:
        sizes = self.sizes
        if sizes is None or sizes.size is None or not sizes.full_size or not sizes.last_size:
            return 1
        is_last = index == (sizes.size - 1) // sizes.full_size
        return sizes.last_size if is_last else sizes.full_size
