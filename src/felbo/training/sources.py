"""Convert training data (tensors, arrays, Dataset, DataLoader) to batches ``(x, y)``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset

from felbo.inputs import Inputs, as_inputs, as_labels, map_tensors, split_labels, tensors
from felbo.training.batches import TensorBatches

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Data = DataLoader[Any] | Dataset[Any] | tuple[Any, Any]


class LoaderBatches:
    """Pairs ``(x, y)`` from a ``DataLoader``, moved to the training device.

    Args:
        loader: yields pairs ``(x, y)``, or dicts with the labels under ``"labels"``.
        fabric: moves batches to the device, and distributes them over processes.

    Attributes:
        full_size: number of items in a full batch; ``None`` if unknown.
        last_size: number of items in an epoch's last batch; ``None`` if unknown.
    """

    def __init__(self, loader: DataLoader[Any], fabric: Fabric) -> None:
        self.loader = cast(Any, fabric.setup_dataloaders(loader))
        self.full_size, self.last_size = _sizes(self.loader.batch_sampler)

    def __iter__(self) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield ``(x [B, ...], y [B])``."""
        for batch in self.loader:
            yield split_labels(batch)


Batches = TensorBatches | LoaderBatches


def _sizes(sampler: Any) -> tuple[int | None, int | None]:
    """Return the sizes of a full and of the last batch, ``None`` where unknown."""
    if not isinstance(sampler, BatchSampler):
        return None, None
    try:
        items = len(sampler.sampler)  # type: ignore[arg-type]
    except TypeError:  # a stream without a length
        return sampler.batch_size, None
    full = min(sampler.batch_size, items)
    return full, full if sampler.drop_last else items % sampler.batch_size or full


def as_batches(data: Data, batch_size: int | None, fabric: Fabric, dtype: torch.dtype) -> Batches:
    """Return an iterable over the batches of an epoch.

    Args:
        data: a ``DataLoader``; a ``Dataset`` of pairs, which gets one; or ``(x, y)`` as tensors,
            numpy arrays, DataFrames, or tuples and dicts of these.
        batch_size: B; ``None`` takes all data of tensors in one step.
        fabric: device and strategy.
        dtype: of the model; floating-point numpy arrays are converted to it.
    """
    if isinstance(data, DataLoader):
        if batch_size is not None:
            raise ValueError(
                f"batch_size = {batch_size} is for tensors; a DataLoader has its own, set it there."
            )
        return LoaderBatches(data, fabric)
    if isinstance(data, Dataset):
        stream = isinstance(data, IterableDataset)  # cannot be shuffled
        return LoaderBatches(DataLoader(data, batch_size or 128, shuffle=not stream), fabric)
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise TypeError(
            "data must be a DataLoader, a Dataset, or a pair (x, y) of tensors or arrays; "
            f"got {type(data).__name__}."
        )
    x = map_tensors(fabric.to_device, as_inputs(data[0], dtype))
    return TensorBatches(x, as_labels(data[1]).to(next(tensors(x)).device), batch_size)
