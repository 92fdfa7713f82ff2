"""Feasible region of an attack: an ℓ∞ ball intersected with the valid range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from felbo._numbers import refuse_booleans
from felbo.errors import DataError, SettingError, ShapeError

PerChannel = float | Sequence[float] | Tensor

# Bounds and inputs in normalised units are rounded differently from the same byte.
_ROUNDING = 1e-4


class Ball(NamedTuple):
    """Valid inputs within ε of a centre.

    Attributes:
        centre: ``[B, C, ...]``.
        lower: smallest allowed values, the same shape.
        upper: largest allowed values, the same shape.
        unit: scale factor from the units of ε to those of x; a number, or one per channel.
    """

    centre: Tensor
    lower: Tensor
    upper: Tensor
    unit: Tensor

    def move(self, point: Tensor, direction: Tensor, length: float) -> Tensor:
        """Take a step of ``length`` (in the units of ε) in ``direction`` and project to the ball.

        Args:
            point: starting point ``[B, C, ...]``.
            direction: values in [−1, 1], the same shape.
            length: step size.
        """
        return (point + length * self.unit * direction).clamp(self.lower, self.upper)


def ball_around(
    x: Tensor,
    epsilon: float,
    std: PerChannel | None = None,
    low: PerChannel | None = None,
    high: PerChannel | None = None,
) -> Ball:
    """Return the feasible region around ``x``; raise if the settings are inconsistent.

    ``max(x − r, low) ≤ x' ≤ min(x + r, high)`` with the radius ``r = ε``, or ``ε / std_c``.

    Args:
        x: centres ``[B, C, ...]``.
        epsilon: ε.
        std: divides ε to convert it from pixel units to those of x; one number or one per channel.
        low: smallest valid value in the units of x.
        high: largest valid value.
    """
    refuse_booleans(epsilon=epsilon)
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise SettingError(f"epsilon must be finite and at least 0, got {epsilon}.")
    unit = 1 / _per_channel(1.0 if std is None else std, x, "std")
    if not (unit.isfinite() & (unit > 0)).all():
        raise SettingError(f"std must be positive and finite, got {std}.")
    smallest = _per_channel(-math.inf if low is None else low, x, "low")
    largest = _per_channel(math.inf if high is None else high, x, "high")
    if not (smallest < largest).all():
        raise SettingError(f"low must be below high, got low={low} and high={high}.")
    if not ((x >= smallest - _ROUNDING) & (x <= largest + _ROUNDING)).all():
        raise DataError(
            f"Inputs lie from {x.min():.4g} to {x.max():.4g}, outside low={low} and high={high}. "
            "Both bounds are in the units of x, that is after normalisation."
        )
    centre = x.detach().clone()
    radius = epsilon * unit
    # An input that is outside by a rounding error stays a feasible point.
    lower = torch.maximum(centre - radius, torch.minimum(smallest, centre))
    upper = torch.minimum(centre + radius, torch.maximum(largest, centre))
    return Ball(centre, lower, upper, unit)


def _per_channel(values: PerChannel, x: Tensor, name: str) -> Tensor:
    """Return one value, or one per channel in a shape that broadcasts with ``x [B, C, ...]``."""
    tensor = torch.as_tensor(values, dtype=x.dtype, device=x.device)
    if tensor.shape not in ((), (x.shape[1],)):
        raise ShapeError(
            f"{name} must be one number or one per channel, {x.shape[1]} for inputs of shape "
            f"{list(x.shape)}; got shape {list(tensor.shape)}."
        )
    return tensor if tensor.ndim == 0 else tensor.view(-1, *[1] * (x.ndim - 2))
