"""Convert labelled data (tensors, arrays, Dataset, DataLoader) to batches ``(x, y)``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from felbo._numbers import whole_number
from felbo.errors import InputTypeError
from felbo.evaluation.batches import usual_size, without_labels
from felbo.evaluation.predict import predict
from felbo.evaluation.prediction import Prediction
from felbo.inputs import (
    Inputs,
    as_inputs,
    as_labels,
    batch_size,
    check_one_label_each,
    map_tensors,
)

LabelledData = DataLoader[Any] | Dataset[Any] | tuple[Any, Any]


def labelled_batches(
    data: LabelledData, size: int | None, module: nn.Module
) -> Iterator[tuple[Inputs, Tensor]]:
    """Yield pairs of inputs ``[B, ...]`` and labels ``[B]``, in the given order.

    Args:
        data: a pair ``(x, y)`` of tensors or arrays, where x may be a tuple or dict of them; or a
            ``DataLoader`` or ``Dataset`` that yields such pairs, or dicts with ``"labels"``.
        size: B; ``None`` is that of :func:`felbo.predict`. Batches of a loader keep their size.
        module: its parameters define the dtype that numpy arrays are converted to.
    """
    size = None if size is None else whole_number("batch_size", size)
    parameter = next(module.parameters(), torch.empty(0))
    dtype = parameter.dtype if parameter.is_floating_point() else torch.get_default_dtype()
    if isinstance(data, Dataset):
        data = DataLoader(data, size or usual_size(data, parameter.device))
    if isinstance(data, DataLoader):
        for batch in data:
            yield _pair(batch, dtype)
        return
    x, y = _pair(data, dtype)
    size = size or usual_size(x, parameter.device)
    for start in range(0, len(y), size):
        rows = itemgetter(slice(start, start + size))
        yield map_tensors(rows, x), rows(y)


def predict_labelled(
    model: nn.Module | Sequence[nn.Module],
    data: LabelledData,
    *,
    batch_size: int | None = None,
    **settings: Any,
) -> tuple[Prediction, Tensor]:
    """Return predictions for labelled data, and their labels ``[B]``.

    Both come from one pass over the data, so a loader may shuffle.

    Args:
        model: a stochastic classifier, or a list of networks.
        data: a pair ``(x, y)``, a ``DataLoader`` or a ``Dataset``.
        batch_size: inputs per forward pass; ``None`` is that of :func:`felbo.predict`.
        settings: further arguments of :func:`felbo.predict`.
    """
    labels: list[Tensor] = []
    if not isinstance(model, nn.Module | list | tuple) or not model:
        raise InputTypeError(
            "Data are evaluated with a stochastic classifier or a list of networks, got "
            f"{type(model).__name__}. Of anything else pass the predictions: "
            "felbo.evaluate(felbo.predict(draws), labels), with draws [M, B, K]."
        )
    module = model if isinstance(model, nn.Module) else model[0]

    def recorded() -> Iterator[tuple[Inputs, Tensor]]:
        for x, y in labelled_batches(data, batch_size, module):
            labels.append(y.cpu())
            yield x, y

    prediction = predict(model, recorded(), **settings)
    return prediction, torch.cat(labels)


def _pair(given: Any, dtype: torch.dtype) -> tuple[Inputs, Tensor]:
    """Return inputs and labels as tensors with the same number of items."""
    if isinstance(given, Mapping) and "labels" in given:
        x, y = without_labels(given), given["labels"]
    elif isinstance(given, tuple | list) and len(given) == 2:
        x, y = given
    else:
        raise InputTypeError(
            "Labelled data are a pair (x, y), a dict with the labels under 'labels', or a "
            f"DataLoader or Dataset of these; got {type(given).__name__}."
        )
    inputs, labels = as_inputs(x, dtype), as_labels(y)
    check_one_label_each(labels, batch_size(inputs))
    return inputs, labels
