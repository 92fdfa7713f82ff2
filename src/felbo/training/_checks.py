"""Refuse what a training would stumble over, before its first step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from felbo.models import StochasticClassifier
from felbo.objectives._checks import check_labels
from felbo.training.batches import TensorBatches


def check_trainable(model: nn.Module) -> None:
    """Raise if the model has nothing to train."""
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(
            f"{type(model).__name__} has no parameter to train: its network has no weights, or all "
            "of them are frozen (requires_grad=False)."
        )


def check_data(
    model: StochasticClassifier,
    forward: Callable[[Tensor], Tensor],
    objective: Any,
    batches: Iterable[tuple[Tensor, Tensor]],
) -> None:
    """Raise if a later batch would be refused: all labels of tensors, and the size of the last.

    Args:
        model: in evaluation mode, so that finding the number of classes changes nothing.
        forward: the model as it is called in training, on its device and in its precision.
        objective: whose ``num_samples``, if it has one, says whether a batch is split.
        batches: what an epoch iterates over. The labels of a ``DataLoader`` are not known here.
    """
    if isinstance(batches, TensorBatches):
        with torch.no_grad(), torch.random.fork_rng():
            classes = forward(batches.x[:1]).shape[-1]
        check_labels(batches.y.cpu(), len(batches.x), classes)
    last = _last_batch(batches)
    splits = getattr(objective, "num_samples", None) in (None, 1)
    if splits and last is not None and last < model.smallest_batch:
        raise ValueError(
            f"The last batch would hold {last} of the items and this {type(model).__name__} needs "
            f"at least {model.smallest_batch} per training step. Choose another batch_size, or a "
            "DataLoader with drop_last=True."
        )


def _last_batch(batches: Any) -> int | None:
    """Number of items in an epoch's last batch; ``None`` if it cannot be known."""
    if isinstance(batches, TensorBatches):
        return batches.last_size
    # Fabric's stand-in for a DataLoader has its attributes, but is none.
    if batches.batch_size is None or batches.drop_last:
        return None
    try:
        items = len(batches.sampler)
    except TypeError:
        return None
    size: int = batches.batch_size
    return items % size or size
