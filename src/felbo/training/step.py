"""One training step, which does not change the model if the loss is not finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from felbo.errors import DataError, InputTypeError, ShapeError
from felbo.inputs import Inputs, note_dtypes, tensors
from felbo.objectives import Loss, Objective
from felbo.random import torch_seed
from felbo.training.devices import Engine
from felbo.training.divergence import not_finite
from felbo.training.generators import ObjectiveState
from felbo.training.statistics import RunningStatistics

# Batches (x, y) whose mean loss makes one step.
Group = Sequence[tuple[Inputs, Tensor]]


class Step:
    """Compute the loss and its gradient, and take an optimiser step.

    The loss of several batches is their mean, weighted by items, so that k batches of b items give
    the gradient of one batch of k · b items.

    Args:
        engine: model in training mode, optimiser and backward function.
        objective: computes the loss.
        check: called with the inputs once the loss is there; raises if training cannot go on.
        clip_norm: largest norm of the gradient; ``None`` does not clip.
        closure: True if the optimiser computes the loss itself, several times per step.
    """

    def __init__(
        self,
        engine: Engine,
        objective: Objective,
        check: Callable[[Inputs], None],
        clip_norm: float | None = None,
        closure: bool = False,
    ) -> None:
        self.model, self.optimizer, self.backward, self.clip, self.unsynced = engine
        self.objective, self.check = objective, check
        self.clip_norm, self.closure = clip_norm, closure
        self.find_statistics()
        # Of the items of the first batch: if others come, that may be why a forward pass fails.
        self.shapes: list[torch.Size] | None = None

    def find_statistics(self) -> None:
        """Look for the running statistics of the model, which a failed step puts back."""
        self.statistics = RunningStatistics(self.model)

    def __call__(self, group: Group) -> Tensor:
        """Take one step and return ``[total, nll, kl]`` before it.

        Raises:
            DivergedError: if the loss is not finite. After this and any other error of the
                objective, weights and running statistics are those before the step.
        """
        before = self.statistics.copy()
        try:
            if self.closure:
                return self._search(group)
            values = self._gradient(group)
        except Exception:
            self.statistics.put_back(before)
            raise
        self.optimizer.step()
        # Inside somebody's autocast, torch would go on with its copies of the old weights.
        torch.clear_autocast_cache()
        return values

    def _search(self, group: Group) -> Tensor:
        """Take the step of an optimiser that computes the loss several times."""
        found: list[Tensor] = []
        # All evaluations see the same draws, points and statistics: a line search needs a
        # deterministic function.
        seed = int(torch.randint(2**31, ()))
        before, statistics = ObjectiveState(self.objective), self.statistics.copy()
        weights = [parameter.detach().clone() for parameter in self.model.parameters()]

        def closure() -> Tensor:
            torch.clear_autocast_cache()
            if found:
                before.put_back()
                self.statistics.put_back(statistics)
            with torch_seed(seed):
                found.append(self._gradient(group, trial=bool(found)))
            return found[-1][0]

        try:
            self.optimizer.step(closure)
        except Exception:
            with torch.no_grad():
                for parameter, weight in zip(self.model.parameters(), weights, strict=True):
                    parameter.copy_(weight)
            raise
        torch.clear_autocast_cache()
        return found[0]

    def _gradient(self, group: Group, trial: bool = False) -> Tensor:
        """Compute the gradient of the mean loss; return ``[total, nll, kl]``.

        Args:
            group: batches.
            trial: True in a line search, where a loss may be infinite.
        """
        self.optimizer.zero_grad()
        if len(group) == 1:
            loss, values = self._loss(*group[0], trial)
            self.backward(loss.total)
        else:
            items = sum(len(y) for _, y in group)
            values = torch.zeros(())
            for x, y in group:
                loss, part = self._loss(x, y, trial)
                share = len(y) / items
                self.backward(share * loss.total)
                values = values.to(part) + share * part
        self._clip(values, trial)
        return values

    def _clip(self, values: Tensor, trial: bool) -> None:
        """Clip the gradients, unless they are those of an infinite loss in a line search."""
        if self.clip_norm is not None and not (trial and not values[0].isfinite()):
            self.clip(self.clip_norm)

    def _loss(self, x: Inputs, y: Tensor, trial: bool) -> tuple[Loss, Tensor]:
        """Return the loss, and its three terms without their graph."""
        try:
            loss: Any = self.objective(self.model, x, y)
        except (ValueError, RuntimeError) as error:
            if isinstance(error, RuntimeError):
                note_dtypes(error, x, self.model)
            self._explain(error, _item_shapes(x), len(y))
            raise
        if self.shapes is None:
            self.shapes = _item_shapes(x)
        if not isinstance(loss, Loss):
            raise InputTypeError(
                "An objective must return felbo.Loss(total, nll, kl), three scalar tensors; got "
                f"{type(loss).__name__}."
            )
        self.check(x)
        values = torch.stack([part.detach() for part in loss])
        if not trial and not math.isfinite(loss.total.item()):
            raise not_finite(values, x, self.model)
        return loss, values

    def _explain(self, error: Exception, shapes: list[torch.Size], items: int) -> None:
        """Raise a named error if a forward pass failed for its single item or its shapes."""
        if items == 1 and self.statistics.buffers and "more than 1 value per channel" in str(error):
            raise DataError(
                "A batch of one item came, which batch normalisation cannot be trained on: use a "
                "DataLoader with drop_last=True or another batch size, or frozen_norms=True."
            ) from error
        if self.shapes is not None and self.shapes != shapes:
            before, now = [list(s) for s in self.shapes], [list(s) for s in shapes]
            raise ShapeError(
                f"The items of the first batch had the shapes {before}, those of this one have "
                f"{now}, and the forward pass failed: {error}"
            ) from error


def _item_shapes(x: Inputs) -> list[torch.Size]:
    return [part.shape[1:] for part in tensors(x)]
