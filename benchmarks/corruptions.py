"""All 95 corruptions of CIFAR-10: images per second, batched against one at a time."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.timing import Row, quartiles, seconds
from felbo.data import CORRUPTIONS, SEVERITIES, MissingDataError, corrupt, load

BATCH, SINGLE_IMAGES = 250, 5


def rows(count: int = 500, rounds: int = 7) -> Iterator[Row]:
    """Compare test images in batches of 250 with five of them one at a time, per image."""
    try:
        images = load("cifar10", "test", download=False).images[:count]
        corrupt(images[:1], "frost", 1)
    except MissingDataError as error:
        print(f"corruptions: not measured. {error}")
        return
    batched = images.split(BATCH)
    single = images[:SINGLE_IMAGES].split(1)
    each_95(single)  # warm-up
    pairs = [
        (
            seconds(lambda: each_95(batched), 1) / len(images),
            seconds(lambda: each_95(single), 1) / SINGLE_IMAGES,
        )
        for _ in range(rounds)
    ]
    low, middle, high = quartiles([theirs / ours for ours, theirs in pairs])
    ours = statistics.median(ours for ours, _ in pairs)
    theirs = statistics.median(theirs for _, theirs in pairs)
    yield Row(
        f"19 corruptions at 5 severities of {len(images):,} CIFAR-10 images, in batches of {BATCH}",
        "one image at a time",
        "≥ 2.0",
        middle,
        low,
        high,
        ours,
        theirs,
        note=f"{95 / ours:,.0f} corrupted images per second",
        unit="s per image",
    )


def whole_rows() -> Iterator[Row]:
    """Measure the whole benchmark once: 950,000 images."""
    yield from rows(10_000, 1)


def each_95(batches: tuple[Tensor, ...]) -> None:
    """Apply every corruption at every severity to every batch."""
    generator = torch.Generator().manual_seed(0)
    for corruption in CORRUPTIONS:
        for severity in SEVERITIES:
            for batch in batches:
                corrupt(batch, corruption, severity, generator=generator)
