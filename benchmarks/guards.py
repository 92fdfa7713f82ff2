"""What the guards of `felbo.fit` cost: the same loop with its step replaced by the bare one.

The guards: running statistics are copied before a step and put back after an error, shapes are
remembered for its message, the loss is checked, weights are checked and copied now and then,
signals are deferred, and the age of the last checkpoint is looked at (it is written once a minute).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import cycle
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import felbo
from benchmarks.steps import mlp
from benchmarks.timing import Row, compare
from felbo.training import Checkpoint, Training, epochs
from felbo.training.step import Step

BATCH, BATCHES = 256, 100
# Two trainings of the same kind differ for as long as they live, by where their tensors lie in
# memory: several of each kind are compared.
PAIRS = 6


class BareStep(Step):
    """A step as a loop without guards takes it."""

    def __call__(self, group: Any) -> Tensor:
        """Take one step and return the terms of the loss."""
        ((x, y),) = group
        self.optimizer.zero_grad()
        loss = self.objective(self.model, x, y)
        self.check(x)  # takes its hooks off the model, in the first step
        self.backward(loss.total)
        self.optimizer.step()
        return torch.stack([part.detach() for part in loss])


class NoCopies:
    """In place of the weights that are kept for a training that diverges."""

    def __init__(self, model: nn.Module, step: int) -> None:
        self.step = step

    def keep(self, step: int) -> None:
        """Do nothing after a step."""


def normalised() -> nn.Module:
    """Return a perceptron with batch normalisation, whose statistics are copied in every step."""
    layers = [nn.Linear(784, 50), nn.BatchNorm1d(50), nn.ReLU()]
    layers += [nn.Linear(50, 50), nn.BatchNorm1d(50), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(50, 10))


def training(model: nn.Module, data: Any, checkpoint: Checkpoint | None = None) -> Training:
    """Return a training that does not end by itself, after its first epoch."""
    objective = felbo.NegativeLogLikelihood()
    options = {"epochs": 10**6, "batch_size": BATCH, "checkpoint": checkpoint}
    made = felbo.train(felbo.MAP(model), objective, data, **options)
    next(made)
    return made


def rows() -> Iterator[Row]:
    """Compare epochs of trainings with guards and of trainings without, in turn."""
    torch.manual_seed(0)
    data = torch.randn(BATCH * BATCHES, 784), torch.randint(0, 10, (BATCH * BATCHES,))
    for what, make in {"perceptron": mlp, "with batch normalisation": normalised}.items():
        with ExitStack() as stack:
            guarded, unguarded = [], []
            for _ in range(PAIRS):
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                guarded.append(training(make(), data, Checkpoint(folder, every_epoch=False)))
                with (
                    mock.patch.object(epochs, "Step", BareStep),
                    mock.patch.object(epochs, "LastGoodWeights", NoCopies),
                ):
                    unguarded.append(training(make(), data))
            for each in (*guarded, *unguarded):
                stack.callback(each.close)
            yield compare(
                f"{BATCHES} steps of `felbo.fit` with checkpoints, {what}, B = {BATCH}",
                in_turn(guarded),
                "the same loop without its guards",
                in_turn(unguarded),
                "≤ 1.02",
                number=1,
                # Many rounds: the time of an epoch varies by 7 %, and the goal is 2 %.
                rounds=300,
            )


def in_turn(trainings: list[Training]) -> Callable[[], object]:
    """Return a function that trains another one of the trainings for an epoch in each call."""
    turns = cycle(trainings)
    return lambda: next(next(turns))
