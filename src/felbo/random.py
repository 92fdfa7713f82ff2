"""One seed for every source of random numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch (all devices), so that a script repeats itself exactly."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  scikit-learn estimators without a random_state read this one
    torch.manual_seed(seed)


@contextmanager
def torch_seed(seed: int | None) -> Iterator[None]:
    """Run a block under its own torch seed and put the generators back afterwards.

    ``None`` leaves the generators alone.
    """
    if seed is None:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
