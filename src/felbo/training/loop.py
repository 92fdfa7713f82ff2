"""Training loop for any stochastic classifier and objective."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from felbo.inputs import Inputs
from felbo.models import StochasticClassifier, evaluation_mode, training_mode, unwrap
from felbo.objectives import Loss, LossFunction, Objective, as_objective
from felbo.objectives.checks import check_choice
from felbo.random import torch_seed
from felbo.training.checks import (
    check_last_batch,
    check_optimizer,
    check_trainable,
    first_forward,
)
from felbo.training.devices import best_device, set_up
from felbo.training.progress import progress_bar
from felbo.training.sources import Data, as_batches
from felbo.training.step import Step, check_weights

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]
MakeScheduler = Callable[[Optimizer], Any]


@dataclass(frozen=True)
class History:
    """Mean loss, nll and kl of each epoch."""

    total: list[float] = field(default_factory=list)
    nll: list[float] = field(default_factory=list)
    kl: list[float] = field(default_factory=list)

    def append(self, mean: Loss) -> None:
        """Add an epoch."""
        for values, value in zip((self.total, self.nll, self.kl), mean, strict=True):
            values.append(float(value))


def fit(
    model: StochasticClassifier,
    objective: Objective | LossFunction,
    data: Data,
    *,
    epochs: int,
    batch_size: int | None = None,
    learning_rate: float = 1e-3,
    optimizer: MakeOptimizer | Optimizer | None = None,
    scheduler: MakeScheduler | None = None,
    scheduler_step: Literal["epoch", "step"] = "epoch",
    augment: Callable[[Inputs], Inputs] | None = None,
    seed: int | None = None,
    frozen_norms: bool = False,
    fabric: Fabric | None = None,
    progress: bool = True,
    on_epoch: Callable[[int, Loss], None] | None = None,
) -> History:
    """Minimise ``objective`` over the parameters of ``model``, in place.

    Labels are checked before the first step: all of them for tensors, batch by batch for a
    ``DataLoader``. A loss that is not finite stops the training before it reaches the weights or
    the running statistics of batch normalisation.

    Args:
        model: the classifier to train. The mode (train or eval) of every module is restored; a
            module in evaluation mode inside a model in training mode is taken as frozen on purpose
            (``bn.eval()``) and stays so.
        objective: called as ``objective(model, x, y)`` in every step; any function of these that
            returns a :class:`Loss` can be used.
        data: a ``DataLoader`` or ``Dataset`` of ``(x, y)`` pairs, or ``(x [N, ...], y [N])`` as
            tensors, numpy arrays or DataFrames; x may be a tuple or dict of them. Instead of pairs
            there may be dicts with the labels under ``"labels"``.
        epochs: passes over the data.
        batch_size: B for tensors, ``None`` for full-batch steps; for a ``Dataset``, 128 unless
            given. A ``DataLoader`` has its own.
        learning_rate: of the default optimiser, Adam.
        optimizer: another optimiser of the model's parameters, or a function that builds one,
            e.g. ``lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)``.
        scheduler: builds a learning-rate scheduler from the optimiser.
        scheduler_step: advance the scheduler once per epoch or once per step (``OneCycleLR``).
        augment: data augmentation, applied to the inputs of each batch, such as random crops.
        seed: of the shuffle and of the model's draws; torch's global generators are restored
            afterwards. ``None`` uses the global generators. Seeded trainings in several threads run
            one after another.
        frozen_norms: do not update the running statistics of batch normalisation.
        fabric: device, precision and strategy; ``None`` takes the best single device.
        progress: show a progress bar with loss, nll and kl.
        on_epoch: callback after each epoch with its number and mean loss; the model is in
            evaluation mode during the call, and its training mode is restored afterwards.

    Returns:
        The mean loss, nll and kl of each epoch.

    Example:
        >>> import torch, felbo
        >>> x, y = torch.randn(64, 2), torch.arange(64) % 2
        >>> model = felbo.MAP(felbo.networks.mlp(2, (8,), 2))
        >>> history = felbo.fit(model, felbo.NegativeLogLikelihood(), (x, y), epochs=2,
        ...                     batch_size=16, progress=False)
        >>> len(history.total)
        2
    """
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}.")
    check_choice("scheduler_step", scheduler_step, ("epoch", "step"))
    classifier, objective = unwrap(model), as_objective(objective)
    check_trainable(classifier)
    fabric = fabric or best_device()
    batches = as_batches(data, batch_size, fabric, _dtype(classifier))
    made = _make_optimizer(optimizer, classifier, learning_rate)
    wrapped, stepper, backward = set_up(fabric, model, made)
    schedule = scheduler(made) if scheduler else None
    check_last_batch(classifier, objective, batches)
    objective.begin(fabric.world_size * (batches.full_size or 1))
    history = History()
    with (
        training_mode(model, frozen_norms=frozen_norms),
        torch_seed(seed),
        progress_bar(epochs, progress and fabric.is_global_zero) as show,
        first_forward(classifier, batches) as check,
    ):
        step = Step(wrapped, objective, stepper, backward, check)
        for epoch in range(epochs):
            losses: list[Tensor] = []
            for x, y in batches:
                losses.append(step(x if augment is None else augment(x), y))
                if scheduler_step == "step":
                    _advance(schedule, losses[-1][0])
            mean = _mean(losses)
            if scheduler_step == "epoch":
                _advance(schedule, mean.total)
            history.append(mean)
            if on_epoch is not None:
                full = objective.full_batch
                with evaluation_mode([model]):
                    on_epoch(epoch, mean)
                objective.begin(full)  # a larger validation batch must not change the KL weight
            show(mean)
    check_weights(classifier)
    return history


def _mean(losses: list[Tensor]) -> Loss:
    """Return the mean over an epoch's steps."""
    if not losses:
        raise ValueError(
            "The DataLoader gave no batch; with drop_last=True it needs at least batch_size items."
        )
    return Loss(*torch.stack(losses).mean(0).unbind())


def _advance(schedule: Any | None, loss: Tensor) -> None:
    """Advance the scheduler."""
    if isinstance(schedule, ReduceLROnPlateau):
        schedule.step(float(loss))
    elif schedule is not None:
        schedule.step()


def _dtype(model: nn.Module) -> torch.dtype:
    return next(p.dtype for p in model.parameters() if p.is_floating_point())


def _make_optimizer(
    optimizer: MakeOptimizer | Optimizer | None, model: nn.Module, learning_rate: float
) -> Optimizer:
    if isinstance(optimizer, Optimizer):
        check_optimizer(optimizer, model)
        return optimizer
    if optimizer is not None:
        return optimizer(model.parameters())
    # The fused kernel, on devices that support it.
    fused = {p.device.type for p in model.parameters()} <= {"cpu", "cuda"}
    return torch.optim.Adam(model.parameters(), lr=learning_rate, fused=fused)
