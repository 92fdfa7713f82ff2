"""One training step, which does not change the model if the loss is not finite."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from felbo.inputs import Inputs, explained, tensors
from felbo.objectives import Loss, Objective
from felbo.training.statistics import RunningStatistics


class Step:
    """Compute the loss and its gradient, and take an optimiser step.

    Args:
        model: called in training mode; a Fabric wrapper or the classifier itself.
        objective: computes the loss.
        optimizer: of the model's parameters.
        backward: computes gradients of the loss.
        check: called with the inputs once the loss is there; raises if training cannot go on.
    """

    def __init__(
        self,
        model: Any,
        objective: Objective,
        optimizer: Any,
        backward: Callable[[Tensor], None],
        check: Callable[[Inputs], None],
    ) -> None:
        self.model, self.objective = model, objective
        self.optimizer, self.backward, self.check = optimizer, backward, check
        self.statistics = RunningStatistics(model)

    def __call__(self, x: Inputs, y: Tensor) -> Tensor:
        """Take one step and return ``[total, nll, kl]``.

        Raises:
            FloatingPointError: if the loss is not finite. After this and any other error, weights
                and running statistics are those before the step.
        """
        before = self.statistics.copy()
        try:
            loss, values = self._loss(x, y)
        except Exception:
            self.statistics.put_back(before)
            raise
        self.optimizer.zero_grad()
        self.backward(loss.total)
        self.optimizer.step()
        return values

    def _loss(self, x: Inputs, y: Tensor) -> tuple[Loss, Tensor]:
        """Return the loss, and its three terms without their graph."""
        with explained(x, self.model):
            loss: Any = self.objective(self.model, x, y)
        if not isinstance(loss, Loss):
            raise TypeError(
                "An objective must return felbo.Loss(total, nll, kl), three scalar tensors; got "
                f"{type(loss).__name__}."
            )
        self.check(x)
        values = torch.stack([part.detach() for part in loss])
        if not math.isfinite(loss.total.item()):
            raise _not_finite(values, x, self.model)
        return loss, values


def check_weights(model: nn.Module) -> None:
    """Raise if weights are not finite after training: the last loss was computed before them."""
    if not _finite(model.parameters()):
        raise FloatingPointError(
            "The last steps made weights that are not finite: try a smaller learning rate, or clip "
            "gradients."
        )


def _not_finite(values: Tensor, x: Inputs, model: nn.Module) -> FloatingPointError:
    total, nll, kl = values.tolist()
    if not _finite(tensors(x)):
        advice = "The inputs of this batch hold NaN or infinity."
    elif not _finite(model.parameters()):
        advice = "The step before made the weights infinite: try a smaller learning rate."
    else:
        advice = "Inputs and weights are finite: try a smaller learning rate, or clip gradients."
    return FloatingPointError(
        f"The loss became {total} (nll {nll}, kl {kl}). {advice} The model is as before this step."
    )


def _finite(values: Any) -> bool:
    return all(bool(v.isfinite().all()) for v in values if v.is_floating_point())
