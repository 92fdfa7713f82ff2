"""Convert training data (tensors, arrays, Dataset, DataLoader) to batches ``(x, y)``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset

from felbo._numbers import whole_number
from felbo.errors import InputTypeError, SettingError
from felbo.inputs import Inputs, as_inputs, as_labels, map_tensors, split_labels, tensors
from felbo.training.batches import TensorBatches
from felbo.training.processes import Processes
from felbo.training.slices import LoaderSlices, TensorSlices

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Data = DataLoader[Any] | Dataset[Any] | tuple[Any, Any]
BatchSize = int | Literal["auto"] | None

# The default batch size for large data and its lower bound for small data.
LARGEST, SMALLEST = 128, 32


class LoaderBatches:
    """Pairs ``(x, y)`` from a ``DataLoader``, moved to the training device.

    Args:
        loader: yields pairs ``(x, y)``, or dicts with the labels under ``"labels"``.
        fabric: moves batches to the device, and distributes them over processes; ``None`` leaves
            the loader as it is.

    Attributes:
        size: number of items in a pass; ``None`` if unknown.
        full_size: number of items in a full batch; ``None`` if unknown.
        last_size: number of items in an epoch's last batch; ``None`` if unknown.
    """

    def __init__(self, loader: DataLoader[Any], fabric: Fabric | None) -> None:
        self.loader = cast(Any, loader if fabric is None else fabric.setup_dataloaders(loader))
        self.size, self.full_size, self.last_size = _sizes(self.loader.batch_sampler)

    def __iter__(self) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield ``(x [B, ...], y [B])``."""
        for batch in self.loader:
            yield split_labels(batch)


Batches = TensorBatches | LoaderBatches | LoaderSlices


def _sizes(sampler: Any) -> tuple[int | None, int | None, int | None]:
    """Return the sizes of a pass, of a full and of the last batch, ``None`` where unknown."""
    if not isinstance(sampler, BatchSampler):
        return None, None, None
    try:
        items = len(sampler.sampler)  # type: ignore[arg-type]
    except TypeError:  # a stream without a length
        return None, sampler.batch_size, None
    full = min(sampler.batch_size, items)
    return items, full, full if sampler.drop_last else items % sampler.batch_size or full


def as_batches(
    data: Data,
    batch_size: BatchSize,
    fabric: Fabric,
    dtype: torch.dtype,
    processes: Processes | None = None,
) -> Batches:
    """Return an iterable over the batches of an epoch, or over the own parts of them.

    Args:
        data: a ``DataLoader``; a ``Dataset`` of pairs, which gets one; or ``(x, y)`` as tensors,
            numpy arrays, DataFrames, or tuples and dicts of these.
        batch_size: B; ``"auto"`` is :func:`default_batch_size`, ``None`` takes all data in one
            step.
        fabric: device and strategy.
        dtype: of the model; floating-point numpy arrays are converted to it.
        processes: that divide every batch among them; ``None`` is one process.
    """
    check_data(data, "data")
    several = processes if processes is not None and processes.count > 1 else None
    if isinstance(data, DataLoader):
        if isinstance(batch_size, int):
            raise SettingError(
                f"batch_size = {batch_size} is for tensors; a DataLoader has its own, set it there."
            )
        return _from_loader(data, fabric, several)
    size = _batch_size(batch_size, num_items(data))
    if isinstance(data, Dataset):
        stream = isinstance(data, IterableDataset)  # cannot be shuffled
        return _from_loader(DataLoader(data, size, shuffle=not stream), fabric, several)
    x = map_tensors(fabric.to_device, as_inputs(data[0], dtype))
    y = as_labels(data[1]).to(next(tensors(x)).device)
    # A default that covers all data is a full-batch step, which needs neither shuffle nor copy.
    whole = batch_size is None or (batch_size == "auto" and size == len(y))
    if several is not None:
        return TensorSlices(x, y, None if whole else size, several)
    return TensorBatches(x, y, None if whole else size)


def _from_loader(
    loader: DataLoader[Any], fabric: Fabric, processes: Processes | None
) -> LoaderBatches | LoaderSlices:
    if processes is None:
        return LoaderBatches(loader, fabric)
    return LoaderSlices(loader, _sizes(loader.batch_sampler), processes)


def default_batch_size(items: int) -> int:
    """Return the default batch size: a tenth of the data, but at least 32 and at most 128.

    It is lowered while the last batch of an epoch would hold less than a quarter of a full one,
    since a tiny batch makes a noisy step, and batch normalisation cannot train on a single item.

    Example:
        >>> [default_batch_size(items) for items in (20, 200, 1000, 60_000)]
        [20, 32, 100, 128]
    """
    size = max(1, min(items, LARGEST, max(SMALLEST, items // 10)))
    while 0 < items % size < size // 4:
        size -= 1
    return size


def num_items(data: Data) -> int | None:
    """Return N, the number of training examples; ``None`` for a stream without a length."""
    items: Any = data[1] if isinstance(data, tuple | list) else data
    if isinstance(data, DataLoader):
        if data.batch_sampler is None:  # the items of the data set are batches, of unknown sizes
            return None
        items = data.dataset
    try:
        size = len(items)
    except TypeError:
        return None
    # A sampler may take a part of the data; or some items several times, which adds none.
    drawn = _sizes(data.batch_sampler)[0] if isinstance(data, DataLoader) else None
    return size if drawn is None else min(size, drawn)


def check_data(data: Any, name: str) -> None:
    """Raise unless data have one of the forms that a training takes."""
    pair = isinstance(data, tuple | list) and len(data) == 2
    if not (pair or isinstance(data, DataLoader | Dataset)):
        raise InputTypeError(
            f"{name} must be a DataLoader, a Dataset, or a pair (x, y) of tensors or arrays; "
            f"got {type(data).__name__}."
        )


def _batch_size(given: BatchSize | str, items: int | None) -> int:
    """Return the number of items per batch."""
    if given is None:
        if items is None:
            raise SettingError(
                "batch_size=None takes all data in one step: a stream has no such size."
            )
        return max(items, 1)
    if given == "auto":
        return LARGEST if items is None else default_batch_size(items)
    if isinstance(given, str):
        raise InputTypeError(f"batch_size must be a number, 'auto' or None, got {given!r}.")
    return whole_number("batch_size", given)
