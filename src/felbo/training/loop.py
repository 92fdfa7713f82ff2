"""Training loop for any stochastic classifier and objective, as an iterator over epochs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from felbo.inputs import Inputs
from felbo.models import StochasticClassifier, evaluation_mode, training_mode, unwrap
from felbo.objectives import LossFunction, Objective, as_objective
from felbo.random import RandomStream
from felbo.training.checks import (
    check_accumulation,
    check_last_batch,
    check_settings,
    check_trainable,
    first_forward,
)
from felbo.training.devices import Engine, best_device, set_up
from felbo.training.history import Epoch
from felbo.training.optimizers import (
    MakeOptimizer,
    MakeScheduler,
    Schedule,
    make_optimizer,
    needs_closure,
)
from felbo.training.size import items_per_step, training_size
from felbo.training.sources import Batches, BatchSize, Data, as_batches
from felbo.training.step import Step, check_weights
from felbo.training.stopping import EarlyStopping, Monitor
from felbo.training.validation import Validation

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def train(
    model: StochasticClassifier,
    objective: Objective | LossFunction,
    data: Data,
    *,
    epochs: int,
    batch_size: BatchSize = "auto",
    accumulate: int = 1,
    learning_rate: float | None = None,
    optimizer: MakeOptimizer | Optimizer | None = None,
    scheduler: MakeScheduler | LRScheduler | None = None,
    scheduler_step: Literal["epoch", "step"] = "epoch",
    clip_norm: float | None = None,
    validation: Data | None = None,
    patience: int | None = None,
    monitor: Monitor = "nll",
    augment: Callable[[Inputs], Inputs] | None = None,
    seed: int | None = None,
    frozen_norms: bool = False,
    fabric: Fabric | None = None,
) -> Generator[Epoch, None, None]:
    """Train a model in place, and yield after every epoch.

    The iterator under :func:`felbo.fit`, with the same arguments, for a loop of one's own: log,
    save and stop in plain Python. In the body of the loop the model is in evaluation mode, and
    random numbers drawn there do not change a training with a ``seed``. ``break`` ends the
    training; with ``patience`` the model then has its best weights, as after an error. (An iterator
    that is kept in a variable ends when it is closed: ``contextlib.closing``.)

    Returns:
        An iterator over :class:`Epoch`. All arguments are checked before it is returned.

    Example:
        >>> import torch, felbo
        >>> x, y = torch.randn(64, 2), torch.arange(64) % 2
        >>> model = felbo.MAP(felbo.networks.mlp(2, (8,), 2))
        >>> for epoch in felbo.train(model, felbo.NegativeLogLikelihood(), (x, y), epochs=9):
        ...     if epoch.number == 2:
        ...         break
        >>> epoch.number
        2
    """
    classifier, objective = unwrap(model), as_objective(objective)
    check_settings(epochs, accumulate, clip_norm, validation is not None, patience, monitor)
    check_trainable(classifier)
    fabric = fabric or best_device()
    dtype = next(p.dtype for p in classifier.parameters() if p.is_floating_point())
    batches = as_batches(data, batch_size, fabric, dtype)
    check_last_batch(classifier, objective, batches)
    check_accumulation(accumulate, objective, batches)
    made = make_optimizer(optimizer, classifier, learning_rate)
    schedule = Schedule(scheduler, made, scheduler_step)
    engine = set_up(fabric, model, made)
    objective.begin(fabric.world_size * items_per_step(batches, accumulate))
    loop = _Loop(
        model,
        objective,
        batches,
        engine,
        schedule,
        RandomStream(seed),
        num_data=training_size(objective, data),
        accumulate=accumulate,
        clip_norm=clip_norm,
        augment=augment,
        frozen_norms=frozen_norms,
    )
    if validation is not None:
        size = max(128, batches.full_size or 0)
        loop.validation = Validation(validation, engine.model, objective, size, seed or 0, fabric)
    return loop.run(epochs, EarlyStopping(classifier, monitor, patience))


@dataclass
class _Loop:
    """The parts of a training, and how they work together."""

    model: nn.Module
    objective: Objective
    batches: Batches
    engine: Engine
    schedule: Schedule
    stream: RandomStream
    num_data: int | None
    accumulate: int
    clip_norm: float | None
    augment: Callable[[Inputs], Inputs] | None
    frozen_norms: bool
    validation: Validation | None = None

    def run(self, epochs: int, stopping: EarlyStopping) -> Generator[Epoch, None, None]:
        """Yield after every epoch, with the model in evaluation mode."""
        classifier = unwrap(self.model)
        labels = None if self.validation is None else self.validation.labels
        closure = needs_closure(self.schedule.optimizer)
        try:
            with (
                training_mode(self.model, frozen_norms=self.frozen_norms),
                first_forward(classifier, self.batches, labels) as check,
            ):
                step = Step(self.engine, self.objective, check, self.clip_norm, closure)
                for number in range(epochs):
                    # Only the steps draw from the stream of the training: what happens between
                    # two epochs leaves no trace in it.
                    with self.stream.block():
                        mean = self._pass(step)
                    if self.num_data is not None:
                        classifier.num_data = self.num_data
                    full = self.objective.full_batch
                    with evaluation_mode([self.model]):
                        yield self._finished(number, mean, stopping)
                    if self.objective.full_batch != full:  # by a larger batch in validation
                        self.objective.begin(full)
                    if stopping.exhausted:
                        break
        finally:
            stopping.restore()
        check_weights(classifier)

    def _pass(self, step: Step) -> Tensor:
        """Take the steps of an epoch and return their mean ``[total, nll, kl]``."""
        losses: list[Tensor] = []
        iterator = iter(self.batches)
        while group := list(islice(iterator, self.accumulate)):
            if self.augment is not None:
                group = [(self.augment(x), y) for x, y in group]
            losses.append(step(group))
            if self.schedule.per_step:
                self.schedule.advance(losses[-1][0])
        if not losses:
            raise ValueError(
                "The DataLoader gave no batch; with drop_last=True it needs at least batch_size "
                "items."
            )
        return torch.stack(losses).mean(0)

    def _finished(self, number: int, mean: Tensor, stopping: EarlyStopping) -> Epoch:
        """Score the model after an epoch, and advance a scheduler per epoch."""
        total, nll, kl = mean.tolist()
        rate = float(self.schedule.optimizer.param_groups[0]["lr"])
        if self.validation is None:
            scores, is_best, watched = None, False, total
        else:
            scores = self.validation()
            is_best = stopping.update(scores)
            watched = scores.loss if stopping.monitor == "loss" else scores.nll
        if self.schedule.per_epoch:
            self.schedule.advance(watched)
        return Epoch(number, total, nll, kl, rate, scores, is_best)
