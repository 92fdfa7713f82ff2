"""Time to generate points elsewhere, relative to a forward and backward pass over them.

`python -m benchmarks.points` prints the table alone, on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

import felbo
from benchmarks.timing import Row, compare
from felbo.measurement import Comparison, Elsewhere, Mosaic, WorstCase, image_parts, table_parts

AGAINST = "forward and backward pass over as many points"


def training_pass(model: felbo.StochasticClassifier, x: Tensor) -> None:
    model(x).logsumexp(-1).mean().backward()


def rows() -> Iterator[Row]:
    """Measure each set on images with a ResNet, and `Elsewhere` with small networks."""
    torch.manual_seed(0)
    images = torch.randn(128, 3, 32, 32)
    resnet = felbo.MAP(felbo.networks.resnet18(10, width=16))
    label = "128 images 3 × 32 × 32, ResNet-18 (width 16)"
    for part in (*image_parts(), Mosaic(), Elsewhere()):
        name = type(part).__name__
        yield row(f"`{name}`, {label}", partial(part, images), resnet, images, "≤ 0.05", 1)
    search = WorstCase()
    comparison = Comparison(resnet, lambda points: resnet(points)[0].logsumexp(-1))
    ascent = partial(search, images, comparison)
    yield row(f"`WorstCase`, {label}", ascent, resnet, images, "≤ 1.0", 1)

    digits = torch.randn(256, 1, 28, 28)
    mlp = felbo.MAP(felbo.networks.mlp(784, (50, 50), 10))
    label = "256 images 1 × 28 × 28, MLP 784-50-50-10"
    yield row(f"`Elsewhere`, {label}", partial(Elsewhere(), digits), mlp, digits, "≤ 4.0", 20)

    table = torch.randn(256, 30)
    ensemble = felbo.Ensemble(lambda: felbo.networks.mlp(30, (50, 50), 2), members=5)
    label = "256 rows of 30 columns, five MLPs 30-50-50-2"
    for part in (*table_parts(), Elsewhere()):
        name = type(part).__name__
        yield row(f"`{name}`, {label}", partial(part, table), ensemble, table, "≤ 0.50", 50)


def row(
    what: str,
    points: partial[object],
    model: felbo.StochasticClassifier,
    x: Tensor,
    goal: str,
    number: int,
) -> Row:
    """Compare the generation of points with a pass over them."""
    theirs = partial(training_pass, model, x)
    return compare(what, points, AGAINST, theirs, goal, rounds=9, number=number)


def main() -> None:
    torch.set_num_threads(1)
    print(f"| set, batch and network | of a {AGAINST} |\n|---|---|")
    for found in rows():
        print(f"| {found.what} | {found.ratio:.1%} |", flush=True)


if __name__ == "__main__":
    main()
