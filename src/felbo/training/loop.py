"""Training loop for any stochastic classifier and objective, as an iterator over epochs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from operator import index
from os import PathLike
from typing import TYPE_CHECKING, Literal

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from felbo.inputs import Inputs
from felbo.models import StochasticClassifier, unwrap
from felbo.objectives import LossFunction, Objective, as_objective
from felbo.random import RandomStream
from felbo.training.checkpoint import Checkpoint, as_checkpoint
from felbo.training.checks import (
    check_accumulation,
    check_last_batch,
    check_settings,
    check_trainable,
)
from felbo.training.devices import best_device, set_up
from felbo.training.epochs import Loop
from felbo.training.fingerprint import (
    describe_data,
    describe_objective,
    describe_optimizer,
    describe_weights,
)
from felbo.training.generators import find_objectives
from felbo.training.history import Epoch, History, Scorer
from felbo.training.hold_out import hold_out
from felbo.training.optimizers import (
    MakeOptimizer,
    MakeScheduler,
    Schedule,
    make_optimizer,
)
from felbo.training.processes import Processes
from felbo.training.resuming import RandomSources, Saver, TrainingState
from felbo.training.shared_saver import SharedSaver
from felbo.training.size import items_per_step, training_size
from felbo.training.sources import BatchSize, Data, as_batches, num_items
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
    validation: Data | float | Scorer | None = None,
    patience: int | None = None,
    monitor: Monitor = "nll",
    augment: Callable[[Inputs], Inputs] | None = None,
    seed: int | None = None,
    frozen_norms: bool = False,
    fabric: Fabric | None = None,
    checkpoint: str | PathLike[str] | Checkpoint | None = None,
) -> Training:
    """Train a model in place, and yield after every epoch.

    The iterator under :func:`felbo.fit`, with the same arguments, for a custom loop: log,
    save and stop in plain Python. In the body of the loop the model is in evaluation mode, and
    random numbers drawn there do not change a training with a ``seed``. ``break`` ends the
    training; with ``patience`` the model then has its best weights, as after an error. (An iterator
    that is kept in a variable ends when it is closed: ``contextlib.closing``.)

    With ``checkpoint``, a training that was interrupted goes on: the iterator then starts with the
    epoch that was not finished, and the body of the loop runs for it once more. Its attribute
    ``history`` also has the epochs before.

    Returns:
        An iterator over :class:`Epoch`, with a ``history``. All arguments are checked before it is
        returned.

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
    seed = None if seed is None else index(seed)  # numbers of numpy are not understood by all
    check_settings(epochs, accumulate, clip_norm, validation is not None, patience, monitor)
    clip_norm = None if clip_norm is None else float(clip_norm)
    check_trainable(classifier)
    fabric = fabric or best_device()
    dtype = next(p.dtype for p in classifier.parameters() if p.is_floating_point())
    data, validation = hold_out(data, validation, seed or 0, dtype)
    processes = Processes(fabric, classifier)
    batches = as_batches(data, batch_size, fabric, dtype, processes)
    check_last_batch(classifier, objective, batches)
    check_accumulation(accumulate, objective, batches)
    made = make_optimizer(optimizer, classifier, learning_rate)
    schedule = Schedule(scheduler, made, scheduler_step)
    engine = set_up(fabric, model, made)
    for part in find_objectives(objective):
        part.begin(items_per_step(batches, accumulate))
    state = TrainingState(
        classifier,
        made,
        schedule.scheduler,
        fabric.strategy.precision,
        objective,
        EarlyStopping(classifier, monitor, patience),
        RandomStream(processes.seed(seed, classifier)),
    )
    loop = Loop(
        model,
        batches,
        engine,
        schedule,
        state,
        epochs=epochs,
        num_data=training_size(objective, data),
        accumulate=accumulate,
        clip_norm=clip_norm,
        augment=augment,
        frozen_norms=frozen_norms,
        processes=processes,
    )
    if callable(validation):
        loop.validation = validation
    elif validation is not None:
        size = max(128, batches.full_size or 0)
        scores = Validation(validation, engine.model, objective, size, seed or 0, processes)
        loop.validation, loop.validation_labels = scores, scores.labels
    if checkpoint is not None:
        settings = {
            "model": type(classifier).__name__,
            "weights": describe_weights(classifier),
            "objective": describe_objective(objective),
            "data": describe_data(batches),
            "batch_size": batches.full_size,
            "accumulate": accumulate,
            "epochs": epochs,
            "seed": seed,
            "optimizer": describe_optimizer(made),
            "scheduler": type(schedule.scheduler).__name__,
            "scheduler_step": scheduler_step,
            "clip_norm": clip_norm,
            "validation": _describe_validation(validation),
            "patience": patience,
            "monitor": monitor,
            "frozen_norms": frozen_norms,
        }
        random = RandomSources(state.stream, objective, data, augment)
        parts = (as_checkpoint(checkpoint), settings, state, random)
        one = processes.count == 1
        loop.saver = Saver(*parts) if one else SharedSaver(*parts, processes)
    return Training(loop.run(), state.history)


def _describe_validation(validation: Data | Scorer | None) -> int | str | None:
    if validation is None:
        return None
    return "function" if callable(validation) else num_items(validation)


class Training(Iterator[Epoch]):
    """Iterator over the epochs of a training; ``close`` ends it.

    Attributes:
        history: the finished epochs, also those before a training was resumed.
    """

    def __init__(self, epochs: Generator[Epoch, None, None], history: History) -> None:
        self._epochs = epochs
        self.history = history

    def __next__(self) -> Epoch:
        """Train for an epoch."""
        return next(self._epochs)

    def close(self) -> None:
        """End the training; with ``patience`` the model gets its best weights."""
        self._epochs.close()
