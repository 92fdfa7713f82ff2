"""One training step with the function-space term against the same step without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import felbo
from benchmarks.timing import Row, compare

Step = Callable[[], None]


def step_of(model: nn.Module, loss: Callable[[], Tensor]) -> Step:
    """Return a function that takes one full step: loss, backward, Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def cross_entropy(model: felbo.StochasticClassifier, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy over draws and items, in plain PyTorch."""
    logits = model(x)
    return F.cross_entropy(logits.flatten(0, 1), y.repeat(len(logits)))


def with_and_without(case: Case) -> Row:
    """Compare a step of the function-space ELBO with a step of cross-entropy alone.

    Each side takes several steps in a row, as in training, since the first one starts with the
    other side's code and data in the caches; but only a few, so that fluctuations of the machine's
    speed affect both sides equally.
    """
    x, y = data_of(case)
    found = {}
    for implementation in ("plain", "fused"):
        objective = felbo.FunctionSpaceELBO(
            felbo.UniformPrior(case.classes), num_data=60_000, implementation=implementation
        )
        ours, theirs = case.build(), case.build()
        found[implementation] = compare(
            case.what,
            step_of(ours, partial(total, objective, ours, x, y)),
            "the same step, cross-entropy only",
            step_of(theirs, partial(cross_entropy, theirs, x, y)),
            case.goal,
            number=case.number,
            rounds=case.rounds if implementation == "fused" else max(case.rounds // 4, 5),
        )
    return replace(found["fused"], plain=found["plain"].ratio)


def total(
    objective: felbo.Objective, model: felbo.StochasticClassifier, x: Tensor, y: Tensor
) -> Tensor:
    """Return the loss of a step."""
    return objective(model, x, y).total


def data_of(case: Case) -> tuple[Tensor, Tensor]:
    """Return made-up inputs and labels."""
    torch.manual_seed(0)
    return torch.randn(case.shape), torch.randint(0, case.classes, case.shape[:1])


def mlp() -> nn.Module:
    return felbo.networks.mlp(784, (50, 50), 10)


class Case(NamedTuple):
    """A training step: model, made-up inputs ``[B, ...]``, and how often it is measured."""

    what: str
    build: Callable[[], felbo.StochasticClassifier]
    shape: tuple[int, ...]
    classes: int
    goal: str
    number: int
    rounds: int


CASES = (
    Case(
        "training step, MLP 784-50-50-10, B = 256, M = 1",
        lambda: felbo.MAP(mlp()),
        (256, 784),
        10,
        "≤ 1.25",
        number=20,
        rounds=80,
    ),
    Case(
        "training step, MLP ensemble, M = 10",
        lambda: felbo.Ensemble(mlp, members=10),
        (256, 784),
        10,
        "≤ 1.20",
        number=10,
        rounds=50,
    ),
    Case(
        "training step, ResNet-18 (width 16), B = 128, M = 1",
        lambda: felbo.MAP(felbo.networks.resnet18(10, width=16)),
        (128, 3, 32, 32),
        10,
        "≤ 1.02",
        number=1,
        # Many rounds: the time of one step varies by 10 %, and the goal is 2 %.
        rounds=200,
    ),
    Case(
        "training step, linear head 512-1000, K = 1000, M = 5, B = 256",
        lambda: felbo.Ensemble(lambda: nn.Sequential(nn.Linear(512, 1000)), members=5),
        (256, 512),
        1000,
        "≤ 1.5",
        number=4,
        rounds=25,
    ),
)


def rows() -> Iterator[Row]:
    """Measure training steps."""
    torch.manual_seed(0)
    for case in CASES:
        yield with_and_without(case)
    yield against_ten_networks(torch.randn(256, 784))


def against_ten_networks(x: Tensor) -> Row:
    """Compare the batched ensemble step with a loop over ten networks and optimisers."""
    y = torch.randint(0, 10, (len(x),))
    ensemble = felbo.Ensemble(mlp, members=10)
    networks = [mlp() for _ in range(10)]
    optimizers = [torch.optim.Adam(network.parameters(), lr=1e-4) for network in networks]

    def loop() -> None:
        for network, optimizer in zip(networks, optimizers, strict=True):
            optimizer.zero_grad()
            F.cross_entropy(network(x), y).backward()
            optimizer.step()

    return compare(
        "ensemble of 10 MLPs, whole training step",
        step_of(ensemble, lambda: cross_entropy(ensemble, x, y)),
        "a Python loop over ten networks with ten Adam optimisers",
        loop,
        "≥ 2.5",
        number=20,
    )
