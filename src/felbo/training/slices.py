"""Batches of which every process takes a part, so that together they see those of one process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset, Sampler

from felbo.errors import SettingError
from felbo.inputs import Inputs, split_labels, tensors
from felbo.training.batches import TensorBatches
from felbo.training.processes import Processes

# x, y, the items of the whole batch, and the share of them that this process counts for.
Part = tuple[Inputs, Tensor, int, float]


class TensorSlices(TensorBatches):
    """The own part of each of the shuffled mini-batches of one process.

    Args:
        x: inputs ``[N, ...]``, the same on every process.
        y: labels ``[N]``.
        batch_size: B, over all processes; ``None`` takes all data in one step.
        processes: who takes which part.
    """

    def __init__(self, x: Inputs, y: Tensor, batch_size: int | None, processes: Processes) -> None:
        super().__init__(x, y, batch_size)
        self.processes = processes
        _check_full(self.full_size, processes)

    @property
    def last_size(self) -> int:
        """Number of items that a process takes of the last batch, at least."""
        return min(map(self.processes.smallest, (self.full_size, super().last_size)))

    def __iter__(self) -> Iterator[Part]:  # type: ignore[override]
        """Yield ``(x [b, ...], y [b], B, share)``."""
        if self.batch_size is None:
            order = torch.arange(self.size)
        else:
            order = self.processes.from_first(torch.randperm(self.size))
        order = order.to(next(tensors(self.x)).device)
        for index in torch.split(order, self.full_size):
            own, share = self.processes.share(len(index))
            yield self._take(index[own]), self.y.index_select(0, index[own]), len(index), share


class LoaderSlices:
    """The own part of each of the batches of a ``DataLoader``; only its items are loaded.

    Args:
        loader: its batch size counts all processes. The order of the first process is taken.
        processes: who takes which part.

    Attributes:
        size: number of items in a pass.
        full_size: number of items in a full batch; ``None`` if unknown.
        last_size: number of items that a process takes of an epoch's last batch, at least.
    """

    def __init__(
        self, loader: DataLoader[Any], sizes: tuple[int | None, ...], processes: Processes
    ) -> None:
        self.size, self.full_size, last = sizes
        if self.full_size is not None:
            _check_full(self.full_size, processes)
        known = [size for size in (self.full_size, last) if size is not None]
        self.last_size = min(map(processes.smallest, known), default=None)
        self.parts = IndexSlices(_index_batches(loader), processes)
        fabric = processes.fabric
        sliced = with_batch_sampler(loader, self.parts)
        self.loader: Any = fabric.setup_dataloaders(sliced, use_distributed_sampler=False)

    def __iter__(self) -> Iterator[Part]:
        """Yield ``(x [b, ...], y [b], B, share)``."""
        for number, batch in enumerate(self.loader):
            yield *split_labels(batch), *self.parts.shares[number]


class IndexSlices(Sampler[list[int]]):
    """The own part of each batch of indices.

    Args:
        batches: lists of indices, drawn anew in each pass.
        processes: who takes which part.

    Attributes:
        shares: of each batch of this pass, its items and the own share of them.
    """

    def __init__(self, batches: Iterable[list[int]], processes: Processes) -> None:
        self.batches, self.processes = batches, processes
        self.shares: list[tuple[int, float]] = []

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the indices of this process."""
        # Every process draws, so that their random numbers stay in step.
        drawn = self.processes.from_first([list(batch) for batch in self.batches])
        parts = [self.processes.share(len(batch)) for batch in drawn]
        self.shares = [(len(b), share) for b, (_, share) in zip(drawn, parts, strict=True)]
        for batch, (own, _) in zip(drawn, parts, strict=True):
            yield batch[own]

    def __len__(self) -> int:
        """Return the number of batches."""
        if not isinstance(self.batches, Sized):
            raise TypeError("The number of batches is not known.")
        return len(self.batches)


def with_batch_sampler(loader: DataLoader[Any], sampler: Sampler[list[int]]) -> DataLoader[Any]:
    """Return a loader with the settings of ``loader`` and other batches of indices."""
    return DataLoader(
        loader.dataset,
        batch_sampler=sampler,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=loader.generator,
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
    )


def _index_batches(loader: DataLoader[Any]) -> Iterable[list[int]]:
    """Return the batch sampler of a loader; raise if its batches cannot be divided."""
    if type(loader) is not DataLoader:
        raise SettingError(
            "Several processes divide the batches of a torch DataLoader among them; got a "
            f"{type(loader).__name__}, whose batches may be made in another way."
        )
    if isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
        raise SettingError(
            "Several processes divide the indices of a batch among them, and a stream or a loader "
            "with batch_size=None has none: use a Dataset with a length, or train in one process."
        )
    check_sampler(loader)
    return loader.batch_sampler


def check_sampler(loader: DataLoader[Any]) -> None:
    """Raise if a loader gives each process a part of the data already."""
    batches = loader.batch_sampler
    if isinstance(batches, BatchSampler) and isinstance(batches.sampler, DistributedSampler):
        raise SettingError(
            "felbo divides the batches among the processes itself: use an ordinary sampler in "
            "place of the DistributedSampler. The batch size counts all processes."
        )


def _check_full(size: int, processes: Processes) -> None:
    if size < processes.data_ranks:
        raise SettingError(
            f"A batch of {size} items cannot be divided among {processes.data_ranks} processes: "
            "the batch size counts all of them."
        )
