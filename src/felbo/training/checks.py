"""Refuse what a training would stumble over, before a weight moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from felbo.inputs import Inputs, batch_size
from felbo.models import StochasticClassifier
from felbo.objectives import Objective
from felbo.objectives.checks import check_labels
from felbo.objectives.forward import BATCH_NORMS
from felbo.training.batches import TensorBatches
from felbo.training.sources import Batches

ADVICE = "Choose another batch_size, or a DataLoader with drop_last=True."


def check_trainable(model: nn.Module) -> None:
    """Raise if there is nothing to train, or no gradient to train with."""
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(
            f"{type(model).__name__} has no parameter to train: its network has no weights, or all "
            "of them are frozen (requires_grad=False)."
        )
    if not torch.is_grad_enabled():
        raise RuntimeError(
            "Training needs gradients: call fit outside torch.no_grad() and torch.inference_mode()."
        )


def check_optimizer(optimizer: Optimizer, model: nn.Module) -> None:
    """Raise if a ready optimiser holds none of the model's parameters.

    Models copy the network that they are made from, so an optimiser of the network itself would
    train nothing.
    """
    own = set(model.parameters())
    if not any(p in own for group in optimizer.param_groups for p in group["params"]):
        raise ValueError(
            f"The optimiser holds no parameter of this {type(model).__name__}, which is a copy of "
            "the network it was made from. Make the optimiser from model.parameters(), or pass a "
            "function: optimizer=lambda p: torch.optim.SGD(p, lr=0.1)."
        )


def check_last_batch(model: StochasticClassifier, objective: Objective, batches: Batches) -> None:
    """Raise if the last batch of an epoch cannot be split over the members of the model."""
    last, splits = batches.last_size, objective.num_samples in (None, 1)
    if splits and last and last < model.smallest_batch:
        raise ValueError(
            f"The last batch would hold {last} of the items and this {type(model).__name__} needs "
            f"at least {model.smallest_batch} per training step. {ADVICE}"
        )


@contextmanager
def first_forward(
    model: StochasticClassifier, batches: Batches
) -> Iterator[Callable[[Inputs], None]]:
    """Give a function to call with the inputs of each step between forward and backward pass.

    In the first step it looks at what the forward pass has shown, before any weight moves, and
    raises if a later step would be refused: for labels of tensors that are out of range, and for a
    last batch of one item under batch normalisation.

    Args:
        model: what is trained, in training mode.
        batches: what an epoch iterates over. The labels of a ``DataLoader`` are not known yet.
    """
    seen = _Seen()
    hooks = [
        model.register_forward_hook(seen.model),
        *(
            norm.register_forward_pre_hook(partial(seen.norm, name))
            for name, norm in model.named_modules()
            if isinstance(norm, BATCH_NORMS)
        ),
    ]

    def check(x: Inputs) -> None:
        if not hooks:
            return
        while hooks:
            hooks.pop().remove()
        if isinstance(batches, TensorBatches) and seen.classes:
            check_labels(batches.y.cpu(), batches.size, seen.classes)
        if batches.last_size == 1:
            _check_norms(seen, batch_size(x))

    try:
        yield check
    finally:
        for hook in hooks:
            hook.remove()


class _Seen:
    """What hooks have seen in a forward pass.

    Attributes:
        classes: K; 0 if the model was not called.
        norms: name, rows, and values per row and channel of each batch normalisation that trains.
    """

    def __init__(self) -> None:
        self.classes = 0
        self.norms: list[tuple[str, int, int]] = []

    def model(self, _: nn.Module, args: tuple[Any, ...], logits: Tensor) -> None:
        self.classes = logits.shape[-1]

    def norm(self, name: str, norm: nn.Module, args: tuple[Any, ...]) -> None:
        rows, channels = args[0].shape[:2]
        if norm.training:
            self.norms.append((name, rows, args[0][0].numel() // channels))


def _check_norms(seen: _Seen, full: int) -> None:
    """Raise if one item would give a batch normalisation a single value per channel."""
    for name, rows, values in seen.norms:
        # There are more rows than items with points beside the batch, or with several members.
        if rows * values == full:
            raise ValueError(
                f"The last batch would hold 1 of the items, which the batch normalisation {name!r} "
                f"cannot be trained on: it needs more than one value per channel. {ADVICE}"
            )
