"""Weighted training rows: merging of duplicates, train/validation split, batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

Batch = tuple[tuple[Tensor, Tensor], Tensor]


class Rows(NamedTuple):
    """Features ``[N, F]``, labels 0 … K − 1 ``[N]`` and weights ``[N]``."""

    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    weights: NDArray[np.float64]

    def merged(self) -> Rows:
        """Merge rows with equal features and label into one with their total weight.

        A row of weight 2 and two equal rows of weight 1 then train the same model, in any order of
        the rows. Rows of weight 0 are dropped.
        """
        kept = self.weights > 0
        table = np.column_stack([self.features[kept], self.labels[kept]])
        # Adding 0.0 turns −0.0 into 0.0, since rows are compared by their bytes.
        table = np.ascontiguousarray(table + 0.0)
        keys = table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        weights = np.zeros(len(first))
        np.add.at(weights, which.ravel(), self.weights[kept])
        return Rows(self.features[kept][first], self.labels[kept][first], weights)

    def split(self, fraction: float, seed: int) -> tuple[Rows, Rows]:
        """Return rows to train on and rows to hold out.

        Of every ``1 / fraction`` rows of a class, in random order, one is held out. A weight counts
        rows: one of weight 5 gives about ``5 · fraction`` to those held out and keeps the rest.
        """
        order = np.random.default_rng(seed).permutation(len(self.labels))
        order = order[np.argsort(self.labels[order], kind="stable")]
        passed = np.floor(0.5 + fraction * np.cumsum(self.weights[order]))
        held_out = np.zeros(len(order))
        held_out[order] = np.diff(passed, prepend=0.0)
        held_out = np.minimum(held_out, self.weights)
        return self._with(self.weights - held_out), self._with(held_out)

<<<<<<< HEAD
    Stratified by class if every class has enough rows.
    """
    counts = np.unique(labels, return_counts=True)[1]
    enough = counts.min() > 1 and round(fraction * len(labels)) >= len(counts)
    train, held_out = train_test_split(
        np.arange(len(labels)),
        test_size=fraction,
        random_state=seed,
        stratify=labels if enough else None,
    )
    return np.sort(train), np.sort(held_out)
=======
    def _with(self, weights: NDArray[np.float64]) -> Rows:
        kept = weights > 0
        return Rows(self.features[kept], self.labels[kept], weights[kept])
>>>>>>> estimator


def as_loader(rows: Rows, batch_size: int | None) -> DataLoader[Any]:
    """Return batches ``((x [B, F], w [B]), y [B])`` of shuffled rows; w has mean 1 over all rows.

    Args:
        rows: the training rows.
        batch_size: maximum rows per step; batches have nearly equal sizes, so that the last one is
            not much smaller than the others. ``None`` is full-batch training.
    """
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, or None for all rows; got {batch_size}.")
    size = len(rows.labels)
    order = _EvenBatches(size, 1 if batch_size is None else -(-size // batch_size))
    return DataLoader(_Table(rows), sampler=order, batch_size=None, collate_fn=_as_it_is)


class _Table(Dataset[Batch]):
    """Rows as tensors, indexed by a tensor of indices."""

    def __init__(self, rows: Rows) -> None:
        self.x = torch.from_numpy(rows.features)
        self.y = torch.from_numpy(rows.labels)
        self.weights = torch.from_numpy(rows.weights / rows.weights.mean()).float()

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: Tensor) -> Batch:
        return (self.x[index], self.weights[index]), self.y[index]


class _EvenBatches(Sampler[Tensor]):
    """Shuffled indices, split into batches of nearly equal size; reshuffled in every epoch."""

    def __init__(self, size: int, batches: int) -> None:
        self.size, self.batches = size, batches

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[Tensor]:
        order = torch.arange(self.size) if self.batches == 1 else torch.randperm(self.size)
        yield from torch.tensor_split(order, self.batches)


def _as_it_is(batch: Any) -> Any:
    return batch
