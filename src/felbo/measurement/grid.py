"""Regular grid of measurement points, for low-dimensional inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from felbo._numbers import refuse_booleans
from felbo.errors import SettingError
from felbo.inputs import Inputs
from felbo.measurement.base import Comparison, MeasurementSet
from felbo.measurement.checks import one_tensor


class Grid(MeasurementSet):
    """All points of a regular grid in a box.

    Args:
        bounds: ``(low, high)`` for each input dimension; the grid starts at ``low`` and includes
            ``high`` if that is an integer number of steps away.
        step: distance between neighbouring points.
        max_points: refuse larger grids, whose forward pass would not fit in memory.

    Attributes:
        shape: number of points along each dimension.

    Example:
        >>> Grid([(0.0, 1.0), (0.0, 2.0)], step=0.5).shape
        (3, 5)
    """

    def __init__(
        self, bounds: Sequence[tuple[float, float]], step: float, max_points: int = 1_000_000
    ) -> None:
        refuse_booleans(step=step, max_points=max_points)
        if not step > 0:
            raise SettingError(f"step must be positive, got {step}.")
        if not bounds:
            raise SettingError("bounds needs one pair (low, high) per input dimension, got none.")
        for low, high in bounds:
            if not -math.inf < low < high < math.inf:
                raise SettingError(
                    f"Each bound is finite, (low, high) with low < high, got {(low, high)}."
                )
        # 1e-6 of a step keeps the upper bound despite rounding.
        self.shape = tuple(int((high - low) / step + 1e-6) + 1 for low, high in bounds)
        if math.prod(self.shape) > max_points:
            raise SettingError(
                f"This grid has {math.prod(self.shape)} points, more than max_points = "
                f"{max_points}; take a larger step, or Pool for inputs of many dimensions."
            )
        axes = [
            low + step * torch.arange(n) for (low, _), n in zip(bounds, self.shape, strict=True)
        ]
        self._points = torch.cartesian_prod(*axes).reshape(-1, len(axes))

    @property
    def points(self) -> Tensor:
        """The grid ``[S, D]``; the last dimension varies fastest."""
        return self._points

    def __call__(self, x: Inputs, comparison: Comparison | None = None) -> Tensor:
        """Return the grid ``[S, D]`` on the batch's device, in its dtype if floating-point.

        For an integer batch the grid keeps its own dtype, since its points would be rounded.
        """
        x = one_tensor(x, "Grid")
        dtype = x.dtype if x.is_floating_point() else self._points.dtype
        # A copy, so that nobody moves the grid by changing the points in place.
        return self._points.to(x.device, dtype, copy=True)
