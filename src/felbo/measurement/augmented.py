"""Transformed copies of the batch."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


class Augmented:
    """``fn(x)`` for every input of the batch, e.g. the batch rotated by 90°.

    Args:
        fn: maps a batch ``[B, ...]`` to points ``[S, ...]`` of the same item shape.
    """

    def __init__(self, fn: Callable[[Tensor], Tensor]) -> None:
        self.fn = fn

    def __call__(self, x: Tensor) -> Tensor:
        """Return the transformed batch ``[S, ...]``."""
        points = self.fn(x)
        if points.shape[1:] != x.shape[1:]:
            raise ValueError(
                f"The augmentation must keep the shape of an input, {list(x.shape[1:])}, "
                f"got {list(points.shape[1:])}."
            )
        return points
