"""Base class of measurement sets: the points at which posterior and prior are compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from felbo.errors import InputTypeError
from felbo.inputs import Inputs, cloned
from felbo.measurement.checks import checked_points
from felbo.models import StochasticClassifier


class Comparison(NamedTuple):
    """Model and divergence of a training step, passed to measurement sets.

    Attributes:
        model: the model that is trained.
        divergence: maps points ``[S, ...]`` to the KL divergence between posterior and prior at
            each of them ``[S]``, differentiable in the points.
    """

    model: StochasticClassifier
    divergence: Callable[[Tensor], Tensor]


class MeasurementSet(ABC):
    """Maps the inputs of a batch to measurement points.

    A subclass implements ``__call__``; a plain function ``x -> points`` becomes one with
    :class:`Augmented`.

    Attributes:
        includes_batch: True if the batch itself is measured too; its forward pass is shared.
    """

    includes_batch: bool = False

    @abstractmethod
    def __call__(self, x: Inputs, comparison: Comparison | None = None) -> Inputs | None:
        """Return the points beside the batch.

        Args:
            x: inputs of the batch ``[B, ...]``.
            comparison: the model and its divergence from the prior, for sets that search for
                points where the two differ.

        Returns:
            Points ``[S, ...]`` of the structure and item shape of ``x``. ``None`` if there are none
            beside the batch, which only a set that includes the batch may return.
        """


# What can be passed as a measurement set: a function from the batch to points can be used as one.
MeasurementLike = MeasurementSet | Callable[[Inputs], Inputs]


class Batch(MeasurementSet):
    """The training batch itself."""

    includes_batch = True

    def __call__(self, x: Inputs, comparison: Comparison | None = None) -> None:
        """Return ``None``: no points beside the batch."""
        return None


class Augmented(MeasurementSet):
    """``fn(x)``, for instance the batch rotated by 90°.

    Args:
        fn: maps the inputs of a batch to points of the same structure and item shape.

    Example:
        >>> import torch
        >>> Augmented(torch.neg)(torch.ones(2, 1))
        tensor([[-1.],
                [-1.]])
    """

    def __init__(self, fn: Callable[[Inputs], Inputs]) -> None:
        self.fn = fn

    def __call__(self, x: Inputs, comparison: Comparison | None = None) -> Inputs:
        """Return ``fn(x)``."""
        # A copy, since the function may change its argument in place.
        return self.fn(cloned(x))


def points_of(
    measurement: MeasurementSet, x: Inputs, comparison: Comparison | None = None
) -> Inputs | None:
    """Return the checked points of a measurement set beside the batch; ``None`` if it has none."""
    points = measurement(x, comparison)
    if points is None and measurement.includes_batch:
        return None
    return checked_points(points, x, type(measurement).__name__)


def as_measurement_set(value: MeasurementLike | None) -> MeasurementSet:
    """Convert a function or ``None`` to a measurement set.

    Args:
        value: a measurement set; a function ``x -> points``, which becomes :class:`Augmented`; or
            ``None``, which becomes :class:`Batch`.

    Example:
        >>> as_measurement_set(None).includes_batch
        True
    """
    if value is None:
        return Batch()
    if isinstance(value, MeasurementSet):
        return value
    if isinstance(value, type) or not callable(value):
        name = value.__name__ if isinstance(value, type) else repr(value)
        raise InputTypeError(
            "A measurement set is an instance such as Batch() or Elsewhere(), or a function from "
            f"the batch to points; got {name}."
        )
    return Augmented(value)
