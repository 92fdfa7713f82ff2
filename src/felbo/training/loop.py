"""Train any stochastic classifier with any objective."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from felbo.models import StochasticClassifier
from felbo.objectives import Loss
from felbo.random import torch_seed
from felbo.training._checks import check_data, check_trainable
from felbo.training.adam import Adam
from felbo.training.batches import TensorBatches

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Objective = Callable[[StochasticClassifier, Tensor, Tensor], Loss]
MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]
MakeScheduler = Callable[[Optimizer], Any]


@dataclass(frozen=True)
class History:
    """Means over each epoch's steps: what the progress bar showed."""

    total: list[float] = field(default_factory=list)
    nll: list[float] = field(default_factory=list)
    kl: list[float] = field(default_factory=list)


def fit(
    model: StochasticClassifier,
    objective: Objective,
    data: DataLoader[Any] | tuple[Tensor, Tensor],
    *,
    epochs: int,
    batch_size: int | None = None,
    learning_rate: float = 1e-3,
    optimizer: MakeOptimizer | None = None,
    scheduler: MakeScheduler | None = None,
    seed: int | None = None,
    fabric: Fabric | None = None,
    progress: bool = True,
    on_epoch: Callable[[int, Loss], None] | None = None,
) -> History:
    """Minimise ``objective`` over the parameters of ``model``, in place.

    Labels are checked before the first step: all of them for tensors, batch by batch for a
    ``DataLoader``.

    Args:
        model: the classifier to train; left in the mode (train or eval) in which it came.
        objective: called as ``objective(model, x, y)`` in every step.
        data: a ``DataLoader`` of ``(x, y)`` pairs, or the tensors ``(x [N, ...], y [N])``.
        epochs: passes over the data.
        batch_size: B for tensors, ``None`` for full-batch steps; a ``DataLoader`` has its own.
        learning_rate: of the default optimiser, Adam.
        optimizer: makes another optimiser from the parameters,
            e.g. ``lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)``.
        scheduler: makes a learning-rate scheduler, stepped once per epoch.
        seed: of the shuffle and of the model's draws, which then do not depend on what ran before
            and leave torch's generators as they were; ``None`` draws from those.
        fabric: device, precision and strategy; ``None`` takes the best single device.
        progress: show a progress bar with loss, nll and kl.
        on_epoch: called after each epoch with its number and mean loss.

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
    check_trainable(model)
    fabric = fabric or _best_device()
    was_training = model.training
    make_optimizer = optimizer or (lambda p: Adam(p, lr=learning_rate))
    wrapped, stepper, backward = _set_up(fabric, model, make_optimizer(model.parameters()))
    schedule = scheduler(stepper) if scheduler else None
    batches = _batches(data, batch_size, fabric)
    history = History()
    try:
        check_data(model.eval(), wrapped, objective, batches)
        model.train()
        with torch_seed(seed), _progress_bar(progress and fabric.is_global_zero) as bar:
            task = bar.add_task("training", total=epochs, loss="")
            for epoch in range(epochs):
                mean = _epoch(wrapped, stepper, backward, objective, batches)
                if schedule is not None:
                    schedule.step()
                history.total.append(float(mean.total))
                history.nll.append(float(mean.nll))
                history.kl.append(float(mean.kl))
                if on_epoch is not None:
                    on_epoch(epoch, mean)
                bar.update(task, advance=1, loss=_describe(mean))
    finally:
        model.train(was_training)
    return history


@cache
def _best_device() -> Fabric:
    # Imported on first use: it takes longer to load than all of felbo. Kept, since it looks through
    # all installed packages for extensions.
    from lightning_fabric import Fabric

    return Fabric(accelerator="auto", devices=1)


def _set_up(
    fabric: Fabric, model: StochasticClassifier, optimizer: Optimizer
) -> tuple[Any, Any, Callable[[Tensor], None]]:
    """Return the model, the optimiser and the backward pass as the strategy wants them."""
    from lightning_fabric.plugins.precision import Precision
    from lightning_fabric.strategies.single_device import SingleDeviceStrategy

    plain = type(fabric.strategy) is SingleDeviceStrategy and type(fabric._precision) is Precision
    if plain:
        # On one device in full precision the wrappers change nothing, but cost more than a small
        # network's forward pass.
        return fabric.to_device(model), optimizer, Tensor.backward
    return (*fabric.setup(model, optimizer), fabric.backward)


def _epoch(
    model: Any,
    optimizer: Any,
    backward: Callable[[Tensor], None],
    objective: Objective,
    batches: Iterable[tuple[Tensor, Tensor]],
) -> Loss:
    """Take one step per batch and return the mean loss; a NaN stops the run."""
    losses: list[Tensor] = []
    for x, y in batches:
        loss = objective(model, x, y)
        optimizer.zero_grad()
        backward(loss.total)
        optimizer.step()
        losses += (loss.total.detach(), loss.nll.detach(), loss.kl.detach())
    if not losses:
        raise ValueError(
            "The DataLoader gave no batch; with drop_last=True it needs at least batch_size items."
        )
    # Read once per epoch: on an accelerator every reading waits for the device.
    mean = Loss(*torch.stack(losses).view(-1, 3).mean(0).unbind())
    if not bool(mean.total.isfinite()):
        raise FloatingPointError(
            f"The loss became {float(mean.total)} (nll {float(mean.nll)}, kl {float(mean.kl)}). "
            "Check the inputs for NaN and try a smaller learning rate."
        )
    return mean


def _batches(
    data: DataLoader[Any] | tuple[Tensor, Tensor],
    batch_size: int | None,
    fabric: Fabric,
) -> Iterable[tuple[Tensor, Tensor]]:
    if isinstance(data, tuple):
        x, y = (fabric.to_device(part) for part in data)
        return TensorBatches(x, y, batch_size)
    if not isinstance(data, DataLoader):
        raise TypeError(
            f"data must be a DataLoader or a tuple of tensors (x, y), got {type(data).__name__}."
        )
    if batch_size is not None:
        raise ValueError(
            f"batch_size = {batch_size} is for tensors; a DataLoader has its own, set it there."
        )
    return cast("DataLoader[Any]", fabric.setup_dataloaders(data))


def _describe(mean: Loss) -> str:
    return f"loss {mean.total:.4f}  nll {mean.nll:.4f}  kl {mean.kl:.3f}"


def _progress_bar(enabled: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} epochs"),
        TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
        disable=not enabled,
    )
