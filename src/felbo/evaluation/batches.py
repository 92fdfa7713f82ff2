"""Convert the inputs of a prediction to batches on the device of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from felbo.errors import DataError, InputTypeError
from felbo.inputs import Inputs, as_inputs, batch_size, map_tensors, tensors

# Input values of a batch if no size is given. On a CPU, larger batches of images leave the cache
# and take longer. On an accelerator, smaller ones do not keep it busy, and for
# vectors the calls would take longer than the numbers.
_OF_MAPS_ON_CPU, _VALUES = 2**18, 2**25
_FEWEST, _MOST = 8, 2048
# Items of a batch of a ``Dataset``, whose items have a size that is not known.
_OF_DATASET = 128


def input_batches(x: Any, size: int | None, module: nn.Module) -> Iterator[Inputs]:
    """Yield batches of inputs ``[B, ...]``, in the given order.

    Args:
        x: as in :func:`felbo.predict`: all inputs, or an iterable of batches.
        size: B; ``None`` is :func:`usual_size`. Batches of an iterable keep their size.
        module: its parameters define the device, and the dtype that numpy arrays are converted to.
    """
    parameter = next(module.parameters(), torch.empty(0))
    dtype = parameter.dtype if parameter.is_floating_point() else torch.get_default_dtype()
    empty = True
    for item in _items(x, size, dtype, parameter.device):
        empty = False
        yield map_tensors(lambda part: part.to(parameter.device), as_inputs(item, dtype))
    if empty:
        raise DataError("x gave no batch: there is nothing to predict.")


def usual_size(data: Inputs | Dataset[Any], device: torch.device) -> int:
    """Return how many items to predict at a time: fewer of larger ones.

    Args:
        data: inputs ``[B, ...]``, or a data set.
        device: of the model.
    """
    if isinstance(data, Dataset):
        return _OF_DATASET
    values = sum(part.numel() for part in tensors(data))
    vectors = all(part.dim() <= 2 and part.is_floating_point() for part in tensors(data))
    wanted = _OF_MAPS_ON_CPU if device.type == "cpu" and not vectors else _VALUES
    return min(max(wanted * batch_size(data) // max(values, 1), _FEWEST), _MOST)


def _items(x: Any, size: int | None, dtype: torch.dtype, device: torch.device) -> Iterator[Any]:
    if isinstance(x, Dataset):
        x = DataLoader(x, size or usual_size(x, device))
    if isinstance(x, Mapping | tuple) or hasattr(x, "shape"):
        inputs = as_inputs(without_labels(x), dtype)
        yield from _slices(inputs, size or usual_size(inputs, device))
    else:
        for batch in x:
            yield without_labels(_first(batch))


def _slices(inputs: Inputs, size: int) -> Iterator[Inputs]:
    for start in range(0, batch_size(inputs), size):
        rows = slice(start, start + size)
        yield map_tensors(itemgetter(rows), inputs)


def _first(batch: Any) -> Any:
    """Return x of a batch ``x``, ``(x,)`` or ``(x, y)``."""
    if not isinstance(batch, list | tuple):
        return batch
    if len(batch) in (1, 2) and not isinstance(batch[0], int | float):
        return batch[0]
    kinds = [type(part).__name__ for part in batch]
    raise InputTypeError(
        f"A batch must be x, (x, y), or a dict of inputs, got a {type(batch).__name__} {kinds}. "
        "Several inputs of a network are a tuple or dict of their own: ((a, b), y)."
    )


def without_labels(x: Any) -> Any:
    """Return ``x`` without its ``"labels"`` if it is a dict."""
    return {k: part for k, part in x.items() if k != "labels"} if isinstance(x, Mapping) else x
