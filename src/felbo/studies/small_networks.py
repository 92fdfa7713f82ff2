"""Small trained networks, with and without normalisation layers, to fine-tune."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import felbo
from felbo.networks import mlp
from felbo.studies.strengths import IMAGES, data_of

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


def deep_convolutional(width: int) -> nn.Sequential:
    """Return pairs of 3×3 convolutions and three linear layers, as VGG networks have them."""
    layers: list[nn.Module] = []
    before = 1
    for after in (width, 2 * width):
        for _ in range(2):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
            before = after
        layers += [nn.MaxPool2d(2)]
    return nn.Sequential(*layers, mlp(8 * width, (256, 256), 10))


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
    "digits: perceptron": Case(NONE, "digits", lambda: mlp(64, (100,), 10)),
    "digits in 0 to 16: perceptron": Case(NONE, "digits", lambda: mlp(64, (100,), 10), 8.0),
    "digits: wide perceptron": Case(NONE, "digits", lambda: mlp(64, (1000, 1000), 10)),
    "digits: deep perceptron": Case(NONE, "digits", lambda: mlp(64, (50,) * 5, 10)),
    "digits: five perceptrons": Case(NONE, "digits", lambda: mlp(64, (50, 50), 10), members=5),
    "digits: convolutions": Case(NONE, "digits", lambda: convolutional((16, 32), 512)),
    "digits: deep convolutions": Case(NONE, "digits", lambda: deep_convolutional(24)),
    "MNIST: perceptron": Case(NONE, "MNIST", lambda: mlp(784, (50, 50), 10)),
    "MNIST: convolutions": Case(NONE, "MNIST", lambda: convolutional((8, 16, 32), 1568)),
    "Fashion-MNIST: perceptron": Case(NONE, "Fashion-MNIST", lambda: mlp(784, (100, 100), 10)),
    "Fashion-MNIST in 0 to 255: perceptron": Case(
        NONE, "Fashion-MNIST", lambda: mlp(784, (100, 100), 10), 127.5
    ),
    "Fashion-MNIST: convolutions": Case(
        NONE, "Fashion-MNIST", lambda: convolutional((8, 16, 32), 1568)
    ),
    "breast cancer: perceptron": Case(NONE, "breast cancer", lambda: mlp(30, (50, 50), 2)),
    "wine: perceptron": Case(NONE, "wine", lambda: mlp(13, (50, 50), 3)),
    "digits: convolutions with batch normalisation": Case(
        BATCH, "digits", lambda: convolutional((16, 32), 512, nn.BatchNorm2d)
    ),
    "Fashion-MNIST: convolutions with batch normalisation": Case(
        BATCH, "Fashion-MNIST", lambda: convolutional((8, 16, 32), 1568, nn.BatchNorm2d)
    ),
    "digits: perceptron with layer normalisation": Case(OTHER, "digits", layer_normalised),
    "digits: Transformer": Case(OTHER, "digits", Transformer),
    "digits: convolutions with group normalisation": Case(
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
    models = [felbo.MAP(case.make()) for _ in range(case.members)]
    for member, model in enumerate(models):
        felbo.fit(
            model,
            felbo.NegativeLogLikelihood(),
            (x[kept], y[kept]),
            epochs=settings["epochs" if case.data in IMAGES else "small_epochs"],
            batch_size=64 if case.data in IMAGES else 32,
            learning_rate=1e-3,
            seed=seed + 1000 * member,
            progress=False,
        )
    both = (x[kept], y[kept]), (x[held], y[held])
    if len(models) == 1:
        return models[0], *both
    return felbo.Ensemble.from_networks([model.network for model in models]), *both
