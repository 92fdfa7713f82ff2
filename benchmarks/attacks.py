"""FGSM and PGD on a small convolutional network: against a prediction, and against each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

import felbo
from benchmarks.timing import Row, compare
from felbo.evaluation import fgsm, pgd, predict

EPSILON, STEPS = 0.1, 5


def rows(images: int = 256, width: int = 32, rounds: int = 7) -> Iterator[Row]:
    """Compare FGSM with a prediction, and PGD with as many single steps as it takes."""
    felbo.seed_everything(0)
    x = torch.randn(images, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    y = torch.arange(images) % 10
    layout = torch.channels_last
    for name, model in (
        ("MAP", felbo.MAP(felbo.networks.compact(10, width=width).to(memory_format=layout))),
        ("MC Dropout, 10 draws", felbo.MCDropout(felbo.networks.compact(10, width=width), 0.2)),
    ):
        row = compare(
            f"FGSM on {images} images, {name}",
            lambda model=model: fgsm(model, x, y, EPSILON, seed=0),
            "a prediction of the same images",
            lambda model=model: predict(model, x, seed=0).probs,
            "≤ 4.0",
            rounds=rounds,
            number=1,
        )
        yield replace(row, note=f"{images / row.ours:,.0f} images per second")
    point = felbo.MAP(felbo.networks.compact(10, width=width).to(memory_format=layout))
    row = compare(
        f"PGD of {STEPS} steps on {images} images, MAP",
        lambda: pgd(point, x, y, EPSILON, steps=STEPS, restarts=1, seed=0),
        f"FGSM {STEPS + 1} times",
        lambda: [fgsm(point, x, y, EPSILON, seed=0) for _ in range(STEPS + 1)],
        "≤ 1.3",
        rounds=rounds,
        number=1,
    )
    yield replace(row, note=f"{images / row.ours:,.0f} images per second")
