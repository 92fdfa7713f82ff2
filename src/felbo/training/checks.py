"""Checks before training starts: parameters, optimiser, first batch and labels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from felbo.inputs import Inputs, batch_size, explained, map_tensors
from felbo.models import StochasticClassifier
from felbo.objectives import Objective
from felbo.objectives.checks import check_labels
from felbo.objectives.forward import checked
from felbo.random import torch_seed
from felbo.training.batches import TensorBatches
from felbo.training.sources import Batches
from felbo.training.statistics import RunningStatistics


def check_trainable(model: nn.Module) -> None:
    """Raise if no parameter requires a gradient, or gradients are disabled."""
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
    """Raise if an optimiser holds none of the model's parameters.

    Models copy the network that they wrap, so an optimiser of the original network would not train
    the model.
    """
    own = set(model.parameters())
    if not any(p in own for group in optimizer.param_groups for p in group["params"]):
        raise ValueError(
            f"The optimiser holds no parameter of this {type(model).__name__}, which is a copy of "
            "the network it was made from. Make the optimiser from model.parameters(), or pass a "
            "function: optimizer=lambda p: torch.optim.SGD(p, lr=0.1)."
        )


def check_first_batch(
    model: StochasticClassifier,
    forward: Callable[..., Tensor],
    objective: Objective,
    batches: Batches,
    x: Inputs,
) -> None:
    """Run one forward pass of the size of the last batch; raise if a later step would fail.

    A last batch can be too small to train on: one item with batch normalisation, or fewer items
    than a rank-1 model has members. Labels of tensors are all checked; those of a ``DataLoader``
    are not known yet.

    Args:
        model: the model to train, in training mode.
        forward: the model as called in training, on its device and in its precision.
        objective: its ``num_samples`` is the number of draws of a step.
        batches: the batches of an epoch.
        x: inputs of the first batch, after augmentation.
    """

    def trial(inputs: Inputs) -> Tensor:
        before = statistics.copy()
        try:
            with torch.no_grad(), torch_seed(0), explained(inputs, model):
                return checked(forward(inputs, objective.num_samples), batch_size(inputs))
        finally:
            statistics.put_back(before)

    statistics, full = RunningStatistics(model), batch_size(x)
    items = min(batches.last_size or full, full)
    try:
        logits = trial(map_tensors(lambda part: part[:items], x))
    except ValueError as error:
        if full > 1:
            trial(x)  # an error of every batch is raised unchanged
        raise ValueError(
            f"The last batch would hold {items} of the items, too few to train this "
            f"{type(model).__name__} on: {error} Choose another batch_size, or a DataLoader with "
            "drop_last=True."
        ) from error
    if isinstance(batches, TensorBatches):
        check_labels(batches.y.cpu(), batches.size, logits.shape[-1])
