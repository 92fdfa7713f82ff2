"""Measurement points with a large KL between posterior and prior, found by gradient ascent."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from felbo._numbers import refuse_booleans, whole_number
from felbo.errors import InputTypeError, SettingError, ShapeError
from felbo.inputs import Inputs
from felbo.measurement.base import Comparison, MeasurementLike, as_measurement_set
from felbo.measurement.checks import one_tensor
from felbo.measurement.itemwise import ItemwiseSet, points_from_rows
from felbo.measurement.ranges import Bound, ChannelRange


class WorstCase(ItemwiseSet):
    """Points of another set, moved by gradient ascent on the KL from the prior.

    ``x ← clip(x + size / steps · sign ∂KL(x)/∂x, low, high)``, ``steps`` times. The KL between two
    stochastic processes is a supremum over sets of points, which this approximates. Each step costs
    a forward and a backward pass over the points. The gradients of the model's parameters are not
    affected.

    Args:
        base: starting points, a measurement set or a function ``x -> points``; ``None`` is the
            batch.
        steps: number of gradient steps.
        size: largest change of a value, over all steps, in the units of the data; ``None`` is 0.15
            times the range of its channel.
        low: lowest valid value, one number or one per channel (second axis); ``None`` is the lowest
            value of the channel in the batch and the starting points.
        high: highest valid value, likewise.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MAP(felbo.networks.mlp(2, (25,), 3))
        >>> comparison = Comparison(model, divergence=lambda points: points.sum(-1))
        >>> WorstCase(size=0.5, low=0.0, high=1.0)(torch.tensor([[0.2, 0.8]]), comparison)
        tensor([[0.7000, 1.0000]])
    """

    def __init__(
        self,
        base: MeasurementLike | None = None,
        steps: int = 1,
        size: float | None = None,
        low: Bound | None = None,
        high: Bound | None = None,
    ) -> None:
        refuse_booleans(size=size)
        if size is not None and not 0.0 < size < math.inf:
            raise SettingError(f"size must be positive, got {size}.")
        self.base = as_measurement_set(base)
        self.steps = whole_number("steps", steps)
        self.size = size
        self.range = ChannelRange(low, high)

    def from_rows(self, x: Inputs, rows: Tensor, comparison: Comparison | None = None) -> Tensor:
        """Return the points after the ascent ``[S, ...]``."""
        x = one_tensor(x, "WorstCase")
        if comparison is None:
            raise SettingError(
                "WorstCase searches for points where the model differs from its prior and needs "
                "both: call it with a Comparison, as FunctionSpaceELBO does."
            )
        if not x.is_floating_point():
            raise InputTypeError(f"WorstCase needs floating-point inputs, got {x.dtype}.")
        points: Tensor = points_from_rows(self.base, x, rows, comparison)
        low, high = self.range(x, points)
        size = 0.15 * (high - low) if self.size is None else self.size
        for _ in range(self.steps):
            direction = _gradient(comparison.divergence, points).sign()
            points = (points + direction * (size / self.steps)).clamp(low, high)
        return points


def _gradient(divergence: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
    """Return the gradient of the divergence with respect to the points."""
    # Validation loops may run under no_grad or inference_mode.
    with torch.inference_mode(False), torch.enable_grad():
        at = points.detach().clone().requires_grad_()
        values = divergence(at)
        if values.shape != at.shape[:1] or not values.requires_grad:
            raise ShapeError(
                f"The divergence must give one value for each of the {len(at)} points, "
                f"differentiable in them; got shape {list(values.shape)}"
                f"{'' if values.requires_grad else ' without a gradient'}."
            )
        return torch.autograd.grad(values.sum(), at)[0]
