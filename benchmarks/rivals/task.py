"""The task: a perceptron that was trained on scikit-learn's digits, and what a method answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from felbo.dirichlet.uncertainties import sample_uncertainty

TRAIN, VALIDATION = 1000, 200
EPOCHS, BATCH_SIZE, LEARNING_RATE = 30, 64, 3e-3
CLASSES = 10

Labelled = tuple[Tensor, Tensor]


class Digits(NamedTuple):
    """Images ``[N, 1, 8, 8]`` in [0, 1] with labels ``[N]``, in the order of scikit-learn's file.

    Attributes:
        train: what networks are trained on.
        validation: labels for methods that choose a number by them; others do not see them.
        test: what is scored.
        unlike: images of another kind, made from those of the test: negatives; turned by 90°; means
            of two that follow each other and show different digits.
    """

    train: Labelled
    validation: Labelled
    test: Labelled
    unlike: dict[str, Tensor]


class Task(NamedTuple):
    """What a method starts from.

    Attributes:
        network: the trained network; a method works on a copy.
        digits: the data.
        seed: of all that is random in the method.
    """

    network: nn.Module
    digits: Digits
    seed: int


class Answer(NamedTuple):
    """What a method says of a batch.

    Attributes:
        probs: ``[B, K]``.
        epistemic: mutual information of label and draw ``[B]``; ``None`` where there are no draws.
    """

    probs: Tensor
    epistemic: Tensor | None = None


Predictor = Callable[[Tensor], Answer]


def answer(draws: Tensor) -> Answer:
    """Return mean and mutual information of draws on the simplex ``[M, B, K]``."""
    return Answer(draws.mean(0), sample_uncertainty(draws).epistemic if len(draws) > 1 else None)


@cache
def digits() -> Digits:
    """Return the digits, divided in the order of the file, as in the README."""
    file = load_digits()
    x = torch.tensor(file.images / 16, dtype=torch.float32).unsqueeze(1)
    y = torch.tensor(file.target)
    held_out = TRAIN + VALIDATION
    test, labels = x[held_out:], y[held_out:]
    blended = (test + test.roll(1, 0))[labels != labels.roll(1)] / 2
    return Digits(
        (x[:TRAIN], y[:TRAIN]),
        (x[TRAIN:held_out], y[TRAIN:held_out]),
        (test, labels),
        {"negative": 1 - test, "turned": test.rot90(1, (2, 3)), "blended": blended},
    )


def perceptron() -> nn.Module:
    """Return an untrained network 64-100-10 for images."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, CLASSES))


def train(network: nn.Module, data: Labelled, extra: Callable[[], Tensor] | None = None) -> None:
    """Minimise the cross-entropy, in place, with Adam.

    Args:
        network: gives logits ``[B, K]``.
        data: images and labels.
        extra: a further term of the loss, looked at after the network has run.
    """
    x, y = data
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH_SIZE):
            optimizer.zero_grad()
            loss = F.cross_entropy(network(x[rows]), y[rows])
            (loss if extra is None else loss + extra()).backward()
            optimizer.step()


def trained(data: Labelled) -> nn.Module:
    """Return a new network after training, in evaluation mode."""
    network = perceptron()
    train(network, data)
    return network.eval()


def loader(data: Labelled, batch_size: int = BATCH_SIZE) -> DataLoader[Any]:
    """Return shuffled batches."""
    return DataLoader(TensorDataset(*data), batch_size, shuffle=True)


def task(seed: int) -> Task:
    """Train the network of a seed."""
    torch.manual_seed(seed)
    data = digits()
    return Task(trained(data.train), data, seed)
