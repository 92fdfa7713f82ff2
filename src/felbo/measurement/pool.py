"""Measurement points from a pool of unlabelled data."""

from __future__ import annotations

import torch

from felbo._numbers import refuse_booleans
from felbo.errors import DataError, SettingError
from felbo.inputs import Inputs, batch_size, map_tensors
from felbo.measurement.base import Comparison, MeasurementSet
from felbo.measurement.checks import like, map_pairs
from felbo.measurement.draws import permutation


class Pool(MeasurementSet):
    """A random subset of unlabelled data in every step.

    Args:
        data: the pool ``[P, ...]``, preprocessed like the inputs of the model. If it is on another
            device than the batches, the drawn points are moved in every step.
        size: number of points per step, drawn without replacement; ``None`` uses all of them.
        generator: source of random numbers; ``None`` is torch's global generator.

    Example:
        >>> import torch
        >>> Pool(torch.randn(1000, 2), size=64)(torch.zeros(8, 2)).shape
        torch.Size([64, 2])
    """

    def __init__(
        self, data: Inputs, size: int | None = None, generator: torch.Generator | None = None
    ) -> None:
        refuse_booleans(size=size)
        available = batch_size(data)
        if available == 0:
            raise DataError("The pool is empty; pass at least one point.")
        if size is not None and not 1 <= size <= available:
            raise SettingError(
                f"size must lie in 1 … {available}, the size of the pool, got {size}."
            )
        self.data = data
        self.size = size
        self.generator = generator

    def __call__(self, x: Inputs, comparison: Comparison | None = None) -> Inputs:
        """Return points ``[S, ...]`` on the batch's device, in its dtype if floating-point."""
        return map_pairs(like, self._chosen(), x)

    def _chosen(self) -> Inputs:
        if self.size is None:
            return self.data
        chosen = permutation(batch_size(self.data), self.generator)[: self.size]
        return map_tensors(lambda part: part[chosen.to(part.device)], self.data)
