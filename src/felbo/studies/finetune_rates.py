"""Which highest rate fine-tuning takes by default, for networks with and without normalisation.

The criterion, written before the first run. A rate is allowed for a group of networks (those
without normalisation layers, those with batch normalisation, those with another one) if

- no network of the group diverges: none ends in numbers that are not finite, or loses more than
  0.2 nats or 5 points on held-out data;
- in the mean over the group, fine-tuning costs at most 0.02 nats and 0.3 points against the network
  before it.

Of the allowed rates, the best is the one with the highest AUROC, in the mean over the group, of
points that fine-tuning does not use: :class:`felbo.measurement.RandomConvolution` and
:class:`felbo.measurement.Mosaic` for images, :class:`felbo.measurement.ShuffledColumns` for tables.
A lower rate is taken if the best is within 0.01 of it: stability matters more. Networks are trained
on four fifths of the training data, fine-tuned on the same and measured on the fifth. No turned and
no negative image, no other data set and no test image is looked at; of the digits, only the first
1,200 are used, which the README trains on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import felbo
from felbo.measurement import MeasurementSet, Mosaic, RandomConvolution, ShuffledColumns
from felbo.networks import mlp
from felbo.paper.results import Observation
from felbo.studies.strengths import IMAGES, TABLES, data_of

# Those of the digits that the README trains on.
DIGITS = 1200


def convolutional(
    channels: tuple[int, ...], features: int, norm: Callable[[int], nn.Module] | None = None
) -> nn.Sequential:
    """Return 3×3 convolutions, each but the first behind a pooling, and a linear layer."""
    layers: list[nn.Module] = []
    for index, (before, after) in enumerate(zip((1, *channels), channels, strict=False)):
        layers += [nn.MaxPool2d(2)] if index else []
        layers += [nn.Conv2d(before, after, 3, padding=1)]
        layers += [norm(after)] if norm else []
        layers += [nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, 10))


class Transformer(nn.Module):
    """Attention over the sixteen 2×2 patches of a digit."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patches = nn.Unfold(2, stride=2)
        self.embed = nn.Linear(4, width)
        self.place = nn.Parameter(0.1 * torch.randn(16, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encode = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[B, 10]`` of images ``[B, 1, 8, 8]``."""
        tokens = self.embed(self.patches(x).mT) + self.place
        logits: Tensor = self.head(self.encode(tokens).mean(1))
        return logits


def layer_normalised() -> nn.Sequential:
    """Return a perceptron with layer normalisation."""
    hidden = [part for size in (64, 100) for part in (nn.Linear(size, 100), nn.LayerNorm(100))]
    return nn.Sequential(
        nn.Flatten(), hidden[0], hidden[1], nn.ReLU(), hidden[2], hidden[3], nn.ReLU(),
        nn.Linear(100, 10),
    )  # fmt: skip


class Case(NamedTuple):
    """A network to fine-tune.

    Attributes:
        group: the kind of its normalisation layers.
        data: name of its data.
        make: makes the untrained network.
        scale: what the inputs are multiplied with, after a shift of 1 that makes them positive; 0
            leaves them as they are, in [−1, 1] or standardised.
        members: number of networks; more than one make an ensemble.
    """

    group: str
    data: str
    make: Callable[[], nn.Module]
    scale: float = 0.0
    members: int = 1


NONE, BATCH, OTHER = "no normalisation", "batch normalisation", "another normalisation"
CASES = {
    "digits, perceptron": Case(NONE, "digits", lambda: mlp(64, (100,), 10)),
    "digits in 0 to 16, perceptron": Case(NONE, "digits", lambda: mlp(64, (100,), 10), 8.0),
    "digits, wide perceptron": Case(NONE, "digits", lambda: mlp(64, (1000, 1000), 10)),
    "digits, deep perceptron": Case(NONE, "digits", lambda: mlp(64, (50,) * 5, 10)),
    "digits, five perceptrons": Case(NONE, "digits", lambda: mlp(64, (50, 50), 10), members=5),
    "digits, convolutions": Case(NONE, "digits", lambda: convolutional((16, 32), 512)),
    "MNIST, perceptron": Case(NONE, "MNIST", lambda: mlp(784, (50, 50), 10)),
    "MNIST, convolutions": Case(NONE, "MNIST", lambda: convolutional((8, 16, 32), 1568)),
    "Fashion-MNIST, perceptron": Case(NONE, "Fashion-MNIST", lambda: mlp(784, (100, 100), 10)),
    "Fashion-MNIST in 0 to 255, perceptron": Case(
        NONE, "Fashion-MNIST", lambda: mlp(784, (100, 100), 10), 127.5
    ),
    "Fashion-MNIST, convolutions": Case(
        NONE, "Fashion-MNIST", lambda: convolutional((8, 16, 32), 1568)
    ),
    "breast cancer, perceptron": Case(NONE, "breast cancer", lambda: mlp(30, (50, 50), 2)),
    "wine, perceptron": Case(NONE, "wine", lambda: mlp(13, (50, 50), 3)),
    "digits, convolutions with batch normalisation": Case(
        BATCH, "digits", lambda: convolutional((16, 32), 512, nn.BatchNorm2d)
    ),
    "Fashion-MNIST, convolutions with batch normalisation": Case(
        BATCH, "Fashion-MNIST", lambda: convolutional((8, 16, 32), 1568, nn.BatchNorm2d)
    ),
    "digits, perceptron with layer normalisation": Case(OTHER, "digits", layer_normalised),
    "digits, Transformer": Case(OTHER, "digits", Transformer),
    "digits, convolutions with group normalisation": Case(
        OTHER, "digits", lambda: convolutional((16, 32), 512, lambda n: nn.GroupNorm(4, n))
    ),
}


def trained(
    case: Case, seed: int, settings: Mapping[str, Any]
) -> tuple[felbo.StochasticClassifier, tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return a trained network, what it was trained on, and the fifth that was held out."""
    x, y = data_of(case.data, settings["train_size"])
    if case.data == "digits":
        x, y = x[:DIGITS], y[:DIGITS]
    if case.scale:
        x = (x + 1.0) * case.scale
    felbo.seed_everything(seed)
    order = torch.randperm(len(x))
    held, kept = order[: len(x) // 5], order[len(x) // 5 :]
    networks = [case.make() for _ in range(case.members)]
    for network in networks:
        felbo.fit(
            network,
            felbo.NegativeLogLikelihood(),
            (x[kept], y[kept]),
            epochs=settings["epochs" if case.data in IMAGES else "small_epochs"],
            batch_size=64 if case.data in IMAGES else 32,
            learning_rate=1e-3,
            seed=seed,
            progress=False,
        )
        seed += 1000
    several = case.members > 1
    model = felbo.Ensemble.from_networks(networks) if several else felbo.MAP(networks[0])
    return model, (x[kept], y[kept]), (x[held], y[held])


def run(name: str, seed: int, settings: Mapping[str, Any]) -> list[Observation]:
    """Fine-tune one network at every rate; rate 0 is the network before."""
    case = CASES[name]
    model, train, (x, y) = trained(case, seed, settings)
    felbo.seed_everything(seed)
    sets: list[MeasurementSet] = (
        [ShuffledColumns()] if case.data in TABLES else [RandomConvolution(), Mosaic()]
    )
    unforeseen = [points(x) for points in sets]
    observations = []
    for rate in (0.0, *settings["rates"]):
        tuned = model
        if rate:
            try:
                tuned = felbo.finetune(
                    model, train, learning_rate=rate, seed=seed, progress=False
                )
            except felbo.DivergedError:
                observations.append(Observation("log_likelihood", rate, -math.inf))
                continue
        on_data = felbo.predict(tuned, x, seed=seed)
        scores = felbo.score(on_data, y)
        elsewhere = [felbo.predict(tuned, points, seed=seed) for points in unforeseen]
        values = {
            "log_likelihood": scores.log_likelihood,
            "accuracy": scores.accuracy,
            "ece": scores.ece,
            "auroc": fmean(
                felbo.evaluation.detection(on_data.total, each.total).auroc for each in elsewhere
            ),
        }
        observations += [Observation(metric, rate, value) for metric, value in values.items()]
    return observations
