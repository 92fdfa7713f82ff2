"""Scaling of the function-space term with M, K, B and S."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

import felbo
from benchmarks.timing import seconds
from felbo.report.style import PALETTE, new_figure, save

BASE = {"M": 4, "K": 10, "B": 256}
RANGES = {
    "M": (2, 4, 8, 16, 32, 64),
    "K": (2, 4, 8, 16, 32, 64, 125, 250, 500, 1000),
    "B": (64, 128, 256, 512, 1024, 2048, 4096),
    "S": (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 100_000),
}


@dataclass(frozen=True)
class Growth:
    """Time of the term along one axis.

    Attributes:
        exponent: slope of log time over log size over the last factor of eight in size; 1 is
            linear.
    """

    axis: str
    sizes: tuple[int, ...]
    milliseconds: tuple[float, ...]
    exponent: float


def cost(draws: int, points: int, classes: int) -> float:
    """Return the time of the bound and its gradient for given logits, in seconds."""
    torch.manual_seed(0)
    logits = torch.randn(draws, points, classes, requires_grad=True)
    labels = torch.randint(0, classes, (points,))
    x = torch.zeros(points, 1)
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(classes), num_data=60_000)

    def bound() -> None:
        objective(lambda *_: logits, x, labels).total.backward()

    number = max(1, min(100, 2_000_000 // logits.numel()))
    seconds(bound, number)
    return min(seconds(bound, number) for _ in range(5))


def rows() -> Iterator[Growth]:
    """Measure along each axis, with the other sizes at their base."""
    for axis, sizes in RANGES.items():
        times = []
        for size in sizes:
            shape = {**BASE, axis: size}
            times.append(cost(shape["M"], shape.get("S", shape["B"]), shape["K"]))
        # Small sizes are dominated by the overhead of each operation; the exponent is measured at
        # the large end.
        far = next(i for i, size in enumerate(sizes) if size * 8 >= sizes[-1])
        exponent = math.log(times[-1] / times[far]) / math.log(sizes[-1] / sizes[far])
        yield Growth(axis, sizes, tuple(1e3 * t for t in times), exponent)


def draw(growths: list[Growth], stem: Path) -> None:
    """Draw the four curves, each with a line of slope one."""
    figure, axes = new_figure(1, len(growths), figsize=(3.6 * len(growths), 3.4))
    for axis, growth in zip(axes, growths, strict=True):
        axis.loglog(growth.sizes, growth.milliseconds, marker="o", color=PALETTE[0])
        top = growth.milliseconds[-1]
        line = [top * size / growth.sizes[-1] for size in growth.sizes]
        axis.loglog(growth.sizes, line, color="0.6", linestyle="--", label="linear")
        axis.set(xlabel=growth.axis, title=f"exponent {growth.exponent:.2f}")
        axis.set_xticks(growth.sizes[::2], [f"{size:,}" for size in growth.sizes[::2]])
        axis.minorticks_off()
    axes[0].set_ylabel("bound and its gradient (ms)")
    axes[0].legend()
    figure.tight_layout()
    save(figure, str(stem))
