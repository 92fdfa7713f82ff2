"""Training rows with their weights: merged, split and put into batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Sampler, TensorDataset

from felbo._numbers import whole_number

Batch = tuple[tuple[Tensor, Tensor], Tensor]


class Rows(NamedTuple):
    """Features ``[N, F]``, labels 0 … K − 1 ``[N]`` and weights ``[N]``."""

    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    weights: NDArray[np.float64]

    def merged(self) -> Rows:
        """Return one row for all rows of the same features and label, with their total weight.

        A row of weight 2 and two equal rows of weight 1 then train the same model, in whatever
        order the rows came. Rows of weight 0 are left out.
        """
        kept = self.weights > 0
        table = np.column_stack([self.features[kept], self.labels[kept]])
        # −0.0 equals 0.0, but its bytes do not; these are what the rows are sorted by.
        table = np.ascontiguousarray(table + 0.0)
        keys = table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        weights = np.zeros(len(first))
        np.add.at(weights, which.ravel(), self.weights[kept])
        return Rows(self.features[kept][first], self.labels[kept][first], weights)

    def split(self, fraction: float, seed: int, fold: int = 0) -> tuple[Rows, Rows]:
        """Return rows to train on and rows to hold out.

        Of every ``1 / fraction`` rows of a class, in random order, one is held out, and in every
        fold another one. A weight counts rows: one of weight 5 gives about ``5 · fraction`` to
        those held out and keeps the rest.
        """
        order = np.random.default_rng(seed).permutation(len(self.labels))
        order = order[np.argsort(self.labels[order], kind="stable")]
        start = (0.5 + fold * fraction) % 1.0
        passed = np.floor(start + fraction * np.cumsum(self.weights[order]))
        held_out = np.zeros(len(order))
        held_out[order] = np.diff(passed, prepend=0.0)
        held_out = np.minimum(held_out, self.weights)
        return self._with(self.weights - held_out), self._with(held_out)

    def some(self, most: int, seed: int) -> Rows:
        """Return rows drawn at random, without replacement, where there are more."""
        if len(self.labels) <= most:
            return self
        chosen = np.sort(np.random.default_rng(seed).permutation(len(self.labels))[:most])
        return Rows(self.features[chosen], self.labels[chosen], self.weights[chosen])

    def tensors(self) -> Batch:
        """Return ``((x [N, F], w [N]), y [N])``, with w of mean 1."""
        weights = torch.from_numpy(self.weights / self.weights.mean()).float()
        return (torch.from_numpy(self.features), weights), torch.from_numpy(self.labels)

    def _with(self, weights: NDArray[np.float64]) -> Rows:
        kept = weights > 0
        return Rows(self.features[kept], self.labels[kept], weights[kept])


def as_loader(rows: Rows, batch_size: int | None) -> DataLoader[Any]:
    """Return batches ``((x [B, F], w [B]), y [B])`` of shuffled rows; w has mean 1 over all rows.

    Args:
        rows: what to train on.
        batch_size: rows per step at most; they are shared out evenly, so that no last batch is much
            smaller than the others. ``None`` takes all rows in each step.
    """
    size = len(rows.labels)
    most = size if batch_size is None else whole_number("batch_size", batch_size)
    order = _EvenBatches(size, -(-size // most))
    return DataLoader(_Table(rows), sampler=order, batch_size=None, collate_fn=_as_it_is)


class _Table(TensorDataset):
    """Rows as tensors, taken by many indices at once."""

    def __init__(self, rows: Rows) -> None:
        (x, weights), y = rows.tensors()
        super().__init__(x, weights, y)

    def __getitem__(self, index: Tensor) -> Batch:  # type: ignore[override]
        x, weights, y = (part[index] for part in self.tensors)
        return (x, weights), y


class _EvenBatches(Sampler[Tensor]):
    """A new shuffle in every epoch, cut into batches of nearly equal size."""

    def __init__(self, size: int, batches: int) -> None:
        self.size, self.batches = size, batches

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[Tensor]:
        order = torch.arange(self.size) if self.batches == 1 else torch.randperm(self.size)
        yield from torch.tensor_split(order, self.batches)


def _as_it_is(batch: Any) -> Any:
    return batch
