"""Shuffled mini-batches of tensors that fit in memory, without a cost per sample."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from felbo.training._memory import Memory

# What was gathered just now lies in the caches of the cores that did it, where others are slow to
# read it. With more at a time the first batch has left them; with much more it takes memory.
GATHERED_BYTES = 2**23


class TensorBatches:
    """Iterate over ``(x, y)`` in random mini-batches; each pass is a new shuffle.

    A few batches together are one ``index_select``, where a ``DataLoader`` over a ``TensorDataset``
    would index, collate and stack every sample.

    Args:
        x: inputs ``[N, ...]``; the batches have no gradient with respect to them.
        y: labels ``[N]``.
        batch_size: B; ``None`` gives all data in each step, unshuffled and uncopied.
        generator: source of the shuffle; ``None`` is torch's global generator.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        batch_size: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if len(x) != len(y):
            raise ValueError(f"x has {len(x)} items and y {len(y)}; each input needs one label.")
        if len(x) == 0:
            raise ValueError("There is no training data: x and y are empty.")
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
        self.x, self.y = x.detach() if x.requires_grad else x, y
        self.batch_size = batch_size
        self.generator = generator
        self._memory = Memory()

    def __len__(self) -> int:
        """Return the number of batches per pass; the last may be smaller."""
        return 1 if self.batch_size is None else -(-len(self.x) // self.batch_size)

    @property
    def last_size(self) -> int:
        """Number of items in the last batch of a pass."""
        size = len(self.x) if self.batch_size is None else self.batch_size
        return len(self.x) % size or size

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield ``(x [B, ...], y [B])``."""
        if self.batch_size is None:
            yield self.x, self.y
            return
        order = torch.randperm(len(self.x), generator=self.generator).to(self.x.device)
        labels = self.y[order]
        for start in range(0, len(self.x), self._gathered):
            part = slice(start, start + self._gathered)
            x = torch.split(self._gather(order[part]), self.batch_size)
            yield from zip(x, torch.split(labels[part], self.batch_size), strict=True)

    def _gather(self, index: Tensor) -> Tensor:
        x = self.x
        if x.device.type != "cpu" or x.layout != torch.strided or not x[0].numel():
            return x.index_select(0, index)
        room = self._memory.empty((len(index), *x.shape[1:]), x.dtype)
        return torch.index_select(x, 0, index, out=room)

    @property
    def _gathered(self) -> int:
        """Number of items to gather at a time: whole batches, at least one."""
        assert self.batch_size is not None
        batch = self.batch_size * self.x[0].numel() * self.x.element_size()
        return self.batch_size * max(GATHERED_BYTES // max(batch, 1), 1)
