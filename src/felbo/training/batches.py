"""Shuffled mini-batches of in-memory tensors, without per-item overhead."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from felbo._numbers import whole_number
from felbo.errors import DataError, ShapeError
from felbo.inputs import Inputs, batch_size, map_tensors, tensors


class TensorBatches:
    """Iterate over ``(x, y)`` in random mini-batches, reshuffled in each pass.

    A batch is one ``index_select`` per tensor, where a ``DataLoader`` over a ``TensorDataset``
    would index, collate and stack every item.

    Args:
        x: inputs ``[N, ...]``; the batches have no gradient with respect to them.
        y: labels ``[N]``.
        batch_size: B; ``None`` returns all data in one batch, unshuffled and uncopied.
        generator: source of the shuffle; ``None`` is torch's global generator.
    """

    def __init__(
        self,
        x: Inputs,
        y: Tensor,
        batch_size: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self.size = _checked_size(x, y)
        self.x, self.y = map_tensors(Tensor.detach, x), y
        self.batch_size = None if batch_size is None else whole_number("batch_size", batch_size)
        self.generator = generator

    def __len__(self) -> int:
        """Return the number of batches per pass; the last may be smaller."""
        return -(-self.size // self.full_size)

    @property
    def full_size(self) -> int:
        """Number of items in a full batch."""
        return min(self.size, self.batch_size or self.size)

    @property
    def last_size(self) -> int:
        """Number of items in the last batch of a pass."""
        return self.size % self.full_size or self.full_size

    def __iter__(self) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield ``(x [B, ...], y [B])``."""
        if self.batch_size is None:
            yield self.x, self.y
            return
        order = torch.randperm(self.size, generator=self.generator)
        order = order.to(next(tensors(self.x)).device)
        for index in torch.split(order, self.batch_size):
            yield self._take(index), self.y.index_select(0, index)

    def _take(self, index: Tensor) -> Inputs:
        return map_tensors(lambda part: part.index_select(0, index), self.x)


def _checked_size(x: Inputs, y: Tensor) -> int:
    size = batch_size(x)
    if size != len(y):
        raise ShapeError(f"x has {size} items and y {len(y)}; each input needs one label.")
    if size == 0:
        raise DataError("There is no training data: x and y are empty.")
    return size
