"""Split labelled data into a part to train on and a part to validate on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from felbo.errors import DataError, InputTypeError, SettingError
from felbo.inputs import as_inputs, as_labels, batch_size, check_one_label_each, map_tensors
from felbo.training.history import Scorer
from felbo.training.sources import Data, check_data


def hold_out(
    data: Data, validation: Data | float | Scorer | None, seed: int, dtype: torch.dtype
) -> tuple[Data, Data | Scorer | None]:
    """Return the data to train on and to validate on.

    A fraction is held out at random: of every ``1 / fraction`` items of a class, one. A ``Dataset``
    other than a ``TensorDataset`` is split without regard to classes, since its labels are known
    only once its items are read.

    Args:
        data: what :func:`felbo.fit` takes as training data.
        validation: the fraction of the data to hold out; or separate data, a function that scores,
            or ``None``, which are returned as they are.
        seed: of the split.
        dtype: of the model; floating-point arrays are converted to it.

    Example:
        >>> import torch
        >>> data = torch.randn(50, 2), torch.arange(50) % 5
        >>> kept, held_out = hold_out(data, 0.2, seed=0, dtype=torch.float32)
        >>> len(kept[1]), held_out[1].bincount()
        (40, tensor([2, 2, 2, 2, 2]))
    """
    if not isinstance(validation, int | float):
        return data, validation
    if isinstance(validation, bool) or not 0.0 < validation < 1.0:
        raise SettingError(
            "validation must be data, or the fraction of the training data to hold out, between "
            f"0 and 1; got {validation}."
        )
    check_data(data, "data")
    if isinstance(data, DataLoader | IterableDataset):
        raise InputTypeError(
            f"validation = {validation} holds out a part of tensors or of a Dataset; a "
            f"{type(data).__name__} cannot be split. Pass its Dataset with batch_size, or separate "
            "validation data."
        )
    if isinstance(data, Dataset):
        return _split_dataset(data, validation, seed)
    return _split_tensors(data, validation, seed, dtype)


def _split_dataset(data: Any, fraction: float, seed: int) -> tuple[Data, Data]:
    labels = torch.zeros(len(data), dtype=torch.int64)
    if isinstance(data, TensorDataset) and data.tensors[-1].dim() == 1:
        labels = as_labels(data.tensors[-1])
    kept, held_out = split(labels.cpu(), fraction, seed)
    return Subset(data, kept.tolist()), Subset(data, held_out.tolist())


def _split_tensors(data: Any, fraction: float, seed: int, dtype: torch.dtype) -> tuple[Data, Data]:
    x, y = as_inputs(data[0], dtype), as_labels(data[1])
    check_one_label_each(y, batch_size(x))

    def part(index: Tensor) -> tuple[Any, Tensor]:
        take = map_tensors(lambda each: each[index.to(each.device)], x)
        return take, y[index.to(y.device)]

    kept, held_out = split(y.cpu(), fraction, seed)
    return part(kept), part(held_out)


def split(labels: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return the sorted positions of the items to keep and of those to hold out.

    Args:
        labels: classes ``[N]``; each is divided alike.
        fraction: share to hold out.
        seed: of the random choice.
    """
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    order = order[labels[order].argsort(stable=True)]
    passed = (0.5 + fraction * torch.arange(len(labels) + 1, dtype=torch.float64)).floor()
    chosen = passed.diff() > 0
    if not chosen.any() or chosen.all():
        raise DataError(
            f"validation = {fraction} of {len(labels)} items leaves none to train on or none to "
            "validate on: pass separate validation data."
        )
    return order[~chosen].sort().values, order[chosen].sort().values
