"""Train any stochastic classifier with any objective."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from felbo.inputs import Inputs, tensors
from felbo.models import StochasticClassifier
from felbo.models.modes import training_mode
from felbo.models.unwrap import unwrap
from felbo.objectives import Loss, LossFunction, Objective, as_objective
from felbo.random import torch_seed
from felbo.training.checks import check_batches, check_first_step, check_optimizer, check_trainable
from felbo.training.progress import progress_bar
from felbo.training.sources import Batches, Data, as_batches

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]
MakeScheduler = Callable[[Optimizer], Any]


@dataclass(frozen=True)
class History:
    """Means over each epoch's steps: what the progress bar showed."""

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
    ``DataLoader``. A loss that is not finite stops the training before it reaches the weights.

    Args:
        model: the classifier to train. Every module is left in the mode (train or eval) in which it
            came; a module in evaluation mode inside a model in training mode was frozen on purpose
            (``bn.eval()``) and stays so.
        objective: called as ``objective(model, x, y)`` in every step; a function of these that
            returns a :class:`Loss` will do.
        data: a ``DataLoader`` or ``Dataset`` of ``(x, y)`` pairs, or ``(x [N, ...], y [N])`` as
            tensors, numpy arrays or DataFrames; x may be a tuple or dict of them.
        epochs: passes over the data.
        batch_size: B for tensors, ``None`` for full-batch steps; a ``DataLoader`` has its own.
        learning_rate: of the default optimiser, Adam.
        optimizer: another optimiser of the model's parameters, or a function that makes one,
            e.g. ``lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)``.
        scheduler: makes a learning-rate scheduler.
        scheduler_step: whether the scheduler steps once per epoch or once per step.
        augment: maps the inputs of each batch to those that are trained on, such as random crops.
        seed: of the shuffle and of the model's draws, which then do not depend on what ran before
            and leave torch's generators as they were; ``None`` draws from those.
        frozen_norms: keep the running statistics of batch normalisation as they are.
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
    classifier, objective = unwrap(model), as_objective(objective)
    check_trainable(classifier)
    fabric = fabric or _best_device()
    batches = as_batches(data, batch_size, fabric, _dtype(classifier))
    made = _make_optimizer(optimizer, classifier, learning_rate)
    wrapped, stepper, backward = _set_up(fabric, model, made)
    schedule = scheduler(made) if scheduler else None
    check_batches(classifier, wrapped, objective, batches)
    objective.begin(fabric.world_size * (batches.full_size or 1))
    step = _Step(
        wrapped, objective, stepper, backward, schedule if scheduler_step == "step" else None
    )
    history = History()
    with (
        training_mode(model, frozen_norms=frozen_norms),
        torch_seed(seed),
        progress_bar(epochs, progress and fabric.is_global_zero) as show,
        check_first_step(classifier, batches) as checked,
    ):
        for epoch in range(epochs):
            mean = _epoch(step, batches, augment, checked)
            if schedule is not None and scheduler_step == "epoch":
                schedule.step()
            history.append(mean)
            if on_epoch is not None:
                on_epoch(epoch, mean)
            show(mean)
    return history


class _Step(NamedTuple):
    """All that a training step needs."""

    model: Any
    objective: Objective
    optimizer: Any
    backward: Callable[[Tensor], None]
    scheduler: Any | None

    def __call__(self, x: Inputs, y: Tensor, before_backward: Callable[[], None]) -> Tensor:
        """Take one step and return ``[total, nll, kl]``."""
        loss = self.objective(self.model, x, y)
        before_backward()
        values = torch.stack([part.detach() for part in loss])
        if not math.isfinite(loss.total.item()):
            raise _not_finite(values, x)
        self.optimizer.zero_grad()
        self.backward(loss.total)
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        return values


def _epoch(
    step: _Step,
    batches: Batches,
    augment: Callable[[Inputs], Inputs] | None,
    before_backward: Callable[[], None],
) -> Loss:
    """Take one step per batch and return the mean loss."""
    losses = []
    for x, y in batches:
        losses.append(step(x if augment is None else augment(x), y, before_backward))
    if not losses:
        raise ValueError(
            "The DataLoader gave no batch; with drop_last=True it needs at least batch_size items."
        )
    return Loss(*torch.stack(losses).mean(0).unbind())


def _not_finite(values: Tensor, x: Inputs) -> FloatingPointError:
    total, nll, kl = values.tolist()
    bad = not all(bool(part.isfinite().all()) for part in tensors(x) if part.is_floating_point())
    advice = (
        "The inputs of this batch hold NaN or infinity."
        if bad
        else "The inputs are finite: try a smaller learning rate, or clip gradients."
    )
    return FloatingPointError(
        f"The loss became {total} (nll {nll}, kl {kl}). {advice} The weights are those before this "
        "step."
    )


@cache
def _best_device() -> Fabric:
    # Imported on first use: it takes longer to load than all of felbo. Kept, since it looks through
    # all installed packages for extensions.
    from lightning_fabric import Fabric

    return Fabric(accelerator="auto", devices=1)


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
    # One kernel for all parameters, where the device has it.
    fused = {p.device.type for p in model.parameters()} <= {"cpu", "cuda"}
    return torch.optim.Adam(model.parameters(), lr=learning_rate, fused=fused)


def _set_up(
    fabric: Fabric, model: nn.Module, optimizer: Optimizer
) -> tuple[Any, Any, Callable[[Tensor], None]]:
    """Return the model, the optimiser and the backward pass as the strategy wants them."""
    from lightning_fabric.plugins.precision import Precision
    from lightning_fabric.strategies.single_device import SingleDeviceStrategy

    strategy = fabric.strategy
    if type(strategy) is SingleDeviceStrategy and type(strategy.precision) is Precision:
        # On one device in full precision the wrappers change nothing, but cost more than a small
        # network's forward pass.
        return fabric.to_device(model), optimizer, Tensor.backward
    return (*fabric.setup(model, optimizer), fabric.backward)
