"""Refuse what a training would stumble over, before a weight moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from felbo.inputs import map_tensors
from felbo.models import StochasticClassifier
from felbo.models.modes import evaluation_mode
from felbo.objectives import Objective
from felbo.objectives.checks import check_labels
from felbo.objectives.forward import BATCH_NORMS
from felbo.training.batches import TensorBatches
from felbo.training.sources import Batches


def check_trainable(model: nn.Module) -> None:
    """Raise if the model has nothing to train."""
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(
            f"{type(model).__name__} has no parameter to train: its network has no weights, or all "
            "of them are frozen (requires_grad=False)."
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


def check_batches(
    model: StochasticClassifier,
    forward: Callable[..., Tensor],
    objective: Objective,
    batches: Batches,
) -> None:
    """Raise if a later batch would be refused: all labels of tensors, and the size of the last.

    Args:
        model: what is trained.
        forward: the model as it is called in training, on its device and in its precision.
        objective: its ``num_samples`` says whether a batch is split over members.
        batches: what an epoch iterates over. The labels of a ``DataLoader`` are not known here.
    """
    if isinstance(batches, TensorBatches):
        with evaluation_mode([model]), torch.no_grad(), torch.random.fork_rng():
            classes = forward(map_tensors(lambda part: part[:1], batches.x)).shape[-1]
        check_labels(batches.y.cpu(), batches.size, classes)
    last = batches.last_size
    splits = objective.num_samples in (None, 1)
    if splits and last is not None and last < model.smallest_batch:
        raise ValueError(
            f"The last batch would hold {last} of the items and this {type(model).__name__} needs "
            f"at least {model.smallest_batch} per training step. Choose another batch_size, or a "
            "DataLoader with drop_last=True."
        )


@contextmanager
def check_first_step(model: StochasticClassifier, batches: Batches) -> Iterator[Callable[[], None]]:
    """Give a function to call after the first forward pass, which refuses a last batch of one.

    Batch normalisation needs more than one value per channel. Whether one item has them is seen
    when the first batch runs, before its gradient.
    """
    if batches.last_size != 1 or batches.full_size == 1:
        yield lambda: None
        return
    single: list[str] = []

    def look(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def hook(norm: nn.Module, args: tuple[Any, ...]) -> None:
            if norm.training and args[0][0].numel() == args[0].shape[1]:
                single.append(name)

        return hook

    hooks = [
        part.register_forward_pre_hook(look(name))
        for name, part in model.named_modules()
        if isinstance(part, BATCH_NORMS)
    ]

    def check() -> None:
        while hooks:
            hooks.pop().remove()
        if single:
            raise ValueError(
                f"The last batch would hold one item, which the batch normalisation {single[0]!r} "
                "cannot be trained on. Choose another batch_size, or a DataLoader with "
                "drop_last=True."
            )

    try:
        yield check
    finally:
        for hook in hooks:
            hook.remove()
