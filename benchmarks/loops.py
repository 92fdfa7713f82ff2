"""Training with `felbo.fit` and prediction, against bare PyTorch loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import felbo
from benchmarks.steps import mlp
from benchmarks.timing import Row, compare

SIZE, BATCH = 60_000, 256


def data() -> tuple[Tensor, Tensor]:
    """Return random tensors of MNIST's size; the values do not affect the time."""
    torch.manual_seed(0)
    return torch.randn(SIZE, 784), torch.randint(0, 10, (SIZE,))


def bare_loop(batches: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Train on batches in a bare loop."""
    network = mlp()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    for x, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(network(x), y).backward()
        optimizer.step()


def bare_epoch(x: Tensor, y: Tensor) -> None:
    """Train on shuffled batches."""
    bare_loop((x[index], y[index]) for index in torch.randperm(len(x)).split(BATCH))


def loader_epoch(x: Tensor, y: Tensor) -> None:
    """Train with the usual DataLoader loop."""
    network = mlp()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for batch, labels in DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(network(batch), labels).backward()
        optimizer.step()


def felbo_epoch(x: Tensor, y: Tensor) -> None:
    """Train with `felbo.fit`."""
    felbo.fit(
        felbo.MAP(mlp()),
        felbo.NegativeLogLikelihood(),
        (x, y),
        epochs=1,
        batch_size=BATCH,
        progress=False,
    )


def rows() -> Iterator[Row]:
    """Measure epochs, a whole run and prediction."""
    x, y = data()
    yield compare(
        "one epoch of MNIST through `felbo.fit`",
        lambda: felbo_epoch(x, y),
        "bare loop that shuffles too",
        lambda: bare_epoch(x, y),
        "≤ 1.10",
        number=1,
        rounds=30,
    )
    yield compare(
        "the same",
        lambda: felbo_epoch(x, y),
        "the usual DataLoader(TensorDataset, shuffle) loop",
        lambda: loader_epoch(x, y),
        "≥ 2",
        number=1,
        rounds=5,
    )
    yield whole_run(x, y)
    yield prediction(x)
    yield prediction_of_images()


def whole_run(x: Tensor, y: Tensor, epochs: int = 30) -> Row:
    """Compare a MAP run of 7,050 steps with as many steps on one fixed batch."""
    batch, labels = x[:BATCH].clone(), y[:BATCH]

    def pure_compute() -> None:
        bare_loop(repeat((batch, labels), epochs * -(-SIZE // BATCH)))

    def run() -> None:
        felbo.fit(
            felbo.MAP(mlp()),
            felbo.NegativeLogLikelihood(),
            (x, y),
            epochs=epochs,
            batch_size=BATCH,
            progress=False,
        )

    return compare(
        "MAP run on MNIST, 30 epochs, no evaluation",
        run,
        "forward, backward and Adam on one fixed batch, 7,050 times",
        pure_compute,
        "≤ 1.5",
        number=1,
        rounds=2,
    )


def prediction(x: Tensor) -> Row:
    """Compare predicting 190,000 images with the bare forward pass of the same weights."""
    ensemble = felbo.Ensemble(mlp, members=10).eval()
    images = x.repeat(4, 1)[:190_000]

    @torch.no_grad()
    def bare() -> list[Tensor]:
        return [ensemble(chunk) for chunk in torch.split(images, 2048)]

    return compare(
        "prediction, 190,000 rotated images, 10 members",
        lambda: felbo.predict(ensemble, images).probs,
        "bare batched forward of the same weights",
        bare,
        "≤ 1.15",
        number=1,
        rounds=15,
    )


def prediction_of_images() -> Row:
    """Compare batches of the usual size, which fit the cache, with one batch of all images."""
    model = felbo.MAP(felbo.networks.resnet18(10, width=16)).eval()
    images = torch.randn(1024, 3, 32, 32)
    return compare(
        "prediction, 1,024 images 3 × 32 × 32, ResNet-18 (width 16)",
        lambda: felbo.predict(model, images).probs,
        "the same in one batch",
        lambda: felbo.predict(model, images, batch_size=1024).probs,
        "≤ 0.8",
        number=1,
        rounds=9,
    )
