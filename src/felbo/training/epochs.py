"""The epochs of a training: steps, validation, early stopping and checkpoints in their order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from felbo.errors import DataError, DivergedError
from felbo.inputs import Inputs, cloned
from felbo.models import evaluation_mode, training_mode, unwrap
from felbo.training.checks import first_forward
from felbo.training.devices import Engine
from felbo.training.divergence import LastGoodWeights, check_weights
from felbo.training.history import Epoch, Scorer
from felbo.training.optimizers import Schedule, needs_closure
from felbo.training.processes import Processes
from felbo.training.resuming import Saver, TrainingState
from felbo.training.shared_step import SharedStep
from felbo.training.sources import Batches
from felbo.training.step import Step


@dataclass
class Loop:
    """Run the epochs of a training from its parts."""

    model: nn.Module
    batches: Batches
    engine: Engine
    schedule: Schedule
    state: TrainingState
    epochs: int
    num_data: int | None
    accumulate: int
    clip_norm: float | None
    augment: Callable[[Inputs], Inputs] | None
    frozen_norms: bool
    processes: Processes
    validation: Scorer | None = None
    validation_labels: Tensor | None = None
    saver: Saver | None = None

    def run(self) -> Generator[Epoch, None, None]:
        """Yield after every epoch, with the model in evaluation mode."""
        classifier, state = unwrap(self.model), self.state
        with nullcontext() if self.saver is None else self.saver.opened():
            try:
                with (
                    training_mode(self.model, frozen_norms=self.frozen_norms),
                    first_forward(classifier, self.batches, self.validation_labels) as check,
                ):
                    good = LastGoodWeights(classifier, state.steps)
                    step = self._step(check)
                    while not self._ended:
                        yield from self._epoch(step, good)
                    check_weights(classifier)
            except DivergedError as error:
                self._rescue(error, good)
                raise
            finally:
                state.stopping.restore()
                torch.clear_autocast_cache()

    @property
    def _ended(self) -> bool:
        return len(self.state.history) >= self.epochs or self.state.stopping.exhausted

    def _step(self, check: Callable[[Inputs], None]) -> Step:
        """Return the step function, for one process or for several."""
        closure = needs_closure(self.schedule.optimizer)
        parts = (self.engine, self.state.objective, check, self.clip_norm, closure)
        return Step(*parts) if self.processes.count == 1 else SharedStep(*parts, self.processes)

    def _epoch(self, step: Step, good: LastGoodWeights) -> Generator[Epoch, None, None]:
        """Train for an epoch, yield its scores, and save it when the caller is done with it."""
        objective = self.state.objective
        # Only the steps draw from the stream of the training: what happens between two epochs
        # leaves no trace in it.
        with self._signals_deferred(), self.state.stream.block():
            mean = self._pass(step, good)
        self.processes.share_buffers(unwrap(self.model))
        if self.num_data is not None:
            unwrap(self.model).num_data = self.num_data
        full = objective.full_batch
        with evaluation_mode([self.model]):
            with self._signals_deferred():
                epoch = self._scored(mean)
            self.state.history.append(epoch)
            yield epoch
        if objective.full_batch != full:  # by a larger batch in validation
            objective.begin(full)
        if self.saver is not None:
            with self._signals_deferred():
                self.saver.after_epoch(self._ended)

    def _pass(self, step: Step, good: LastGoodWeights) -> Tensor:
        """Take the steps of an epoch and return their mean ``[total, nll, kl]``."""
        losses = self.state.losses
        step.find_statistics()  # between two epochs, somebody may have replaced them
        iterator = self._batches()
        while group := list(islice(iterator, self.accumulate)):
            if self.augment is not None:
                # Copies, since it may work in place, and a batch may be the data themselves.
                group = [(self.augment(cloned(x)), *rest) for x, *rest in group]
            losses.append(step(group))
            self.state.steps += 1
            good.keep(self.state.steps)
            self.state.rate = float(self.schedule.optimizer.param_groups[0]["lr"])
            if self.schedule.per_step:
                self.schedule.advance(losses[-1][0])
            if self.saver is not None:
                self.saver.after_step()
        if not losses:
            raise DataError(
                "The DataLoader gave no batch; with drop_last=True it needs at least batch_size "
                "items."
            )
        mean = torch.stack(losses).mean(0)
        losses.clear()
        return mean

    def _batches(self) -> Iterator[Any]:
        """Return an iterator over the batches of an epoch that have not been trained on yet."""
        if self.saver is None:
            return iter(self.batches)
        return self.saver.remaining(self.batches, self.accumulate)

    def _scored(self, mean: Tensor) -> Epoch:
        """Score the model after an epoch, and advance a scheduler per epoch."""
        stopping = self.state.stopping
        total, nll, kl = mean.tolist()
        if self.validation is None:
            scores, is_best, watched = None, False, total
        else:
            scores = self.validation()
            is_best = stopping.update(scores)
            watched = scores.loss if stopping.monitor == "loss" else scores.nll
        if self.schedule.per_epoch:
            self.schedule.advance(watched)
        return Epoch(len(self.state.history), total, nll, kl, self.state.rate, scores, is_best)

    def _rescue(self, error: DivergedError, good: LastGoodWeights) -> None:
        """Add the step to the error, and restore finite weights."""
        error.step = self.state.steps
        put_back = good.put_back()
        if self.state.stopping.keeps_best:
            error.args = (f"{error.args[0]} The model has its weights after the best epoch.",)
        elif put_back:
            error.args = (f"{error.args[0]} The model has its weights after step {good.step}.",)

    def _signals_deferred(self) -> AbstractContextManager[None]:
        return nullcontext() if self.saver is None else self.saver.interrupts.deferred()
