"""Base class of objectives, and the loss they return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from felbo.errors import InputTypeError
from felbo.inputs import Inputs
from felbo.models import StochasticClassifier


class Loss(NamedTuple):
    """A loss and its two terms, differentiable scalars.

    Attributes:
        total: the loss to minimise; call ``backward`` on it.
        nll: mean negative log-likelihood of the labels.
        kl: KL divergence from the prior, before ``kl_weight``; of several terms, the sum of each
            times its weight.
    """

    total: Tensor
    nll: Tensor
    kl: Tensor


class Objective(ABC):
    """A loss for one training step.

    Attributes:
        num_samples: draws per step; ``None`` takes the model's training default.
        full_batch: items of a full step, over all devices; 0 before the first, 1 if unknown.
    """

    num_samples: int | None = None
    full_batch: int = 0

    @abstractmethod
    def __call__(self, model: StochasticClassifier, x: Inputs, y: Tensor) -> Loss:
        """Return the loss of ``model`` on inputs ``x [B, ...]`` and labels ``y [B]``."""

    def begin(self, batch_size: int) -> None:
        """Set the number of items of a full step; called by :func:`felbo.fit` before training.

        Args:
            batch_size: B, over all devices. The last batch of an epoch may be smaller.
        """
        self.full_batch = batch_size


# A plain function that can be used as an objective.
LossFunction = Callable[[StochasticClassifier, Inputs, Tensor], Loss]


class _FromFunction(Objective):
    def __init__(self, function: LossFunction) -> None:
        self.function = function

    def __call__(self, model: StochasticClassifier, x: Inputs, y: Tensor) -> Loss:
        return self.function(model, x, y)


def as_objective(value: Objective | LossFunction) -> Objective:
    """Convert a function to an objective; objectives are returned unchanged."""
    if isinstance(value, Objective):
        return value
    if isinstance(value, type) or not callable(value):
        raise InputTypeError(
            "An objective is an instance such as felbo.FunctionSpaceELBO(prior, num_data), or a "
            f"function (model, x, y) -> felbo.Loss; got {value!r}."
        )
    return _FromFunction(value)
