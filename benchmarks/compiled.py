"""Training step with and without `torch.compile`."""

from __future__ import annotations

from collections.abc import Iterator

import torch

import felbo
from benchmarks.steps import step_of
from benchmarks.timing import Row, compare


def rows() -> Iterator[Row]:
    """Compare a step of a compiled model with the same step of an uncompiled one."""
    torch.manual_seed(0)
    x, y = torch.randn(128, 3, 32, 32), torch.randint(0, 10, (128,))
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(10), num_data=50_000)
    plain, compiled = (felbo.MAP(felbo.networks.resnet18(10, width=16)) for _ in range(2))
    compiled.compile()
    try:
        objective(compiled, x, y).total.backward()
    except Exception as error:
        print(f"skipped: torch.compile ({type(error).__name__}: {error})")
        return
    yield compare(
        "training step, ResNet-18 (width 16), `model.compile()`",
        step_of(compiled, lambda: objective(compiled, x, y).total),
        "the same, not compiled",
        step_of(plain, lambda: objective(plain, x, y).total),
        "≥ 1.0",
        number=1,
        rounds=7,
    )
