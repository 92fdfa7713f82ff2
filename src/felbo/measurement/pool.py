"""Unlabelled points."""

from __future__ import annotations

import torch
from torch import Tensor


class Pool:
    """A random subset of unlabelled data in every step.

    Args:
        data: the pool ``[P, ...]``, inputs as the model sees them.
        size: how many points a step takes, without replacement; ``None`` takes all of them.
        generator: source of the random choice; ``None`` is torch's global generator.
    """

    def __init__(
        self, data: Tensor, size: int | None = None, generator: torch.Generator | None = None
    ) -> None:
        if len(data) == 0:
            raise ValueError("The pool is empty; pass at least one point.")
        if size is not None and not 1 <= size <= len(data):
            raise ValueError(f"size must lie in 1 … {len(data)}, the size of the pool, got {size}.")
        self.data = data
        self.size = size
        self.generator = generator

    def __call__(self, x: Tensor) -> Tensor:
        """Return points ``[S, ...]`` on the device of the batch."""
        if self.size is None:
            self.data = self.data.to(x.device)
            return self.data
        chosen = torch.randperm(len(self.data), generator=self.generator)[: self.size]
        return self.data[chosen.to(self.data.device)].to(x.device)
