"""One seed for every source of random numbers."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

# Held while torch's default generators, which all threads share, serve one seeded block.
_generators_in_use = threading.RLock()


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch (all devices), so that a script repeats itself exactly."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  scikit-learn estimators without a random_state read this one
    torch.manual_seed(seed)


@contextmanager
def torch_seed(seed: int | None) -> Iterator[None]:
    """Run a block under its own torch seed and put the generators back afterwards.

    torch's default generators belong to the whole process, so blocks with a seed in different
    threads run one after another; blocks inside a block of the same thread do not wait. A thread
    that draws *without* a seed in the meantime still draws from the same generators.

    Args:
        seed: of the block; ``None`` leaves the generators alone, and waits for nobody.

    Example:
        >>> with torch_seed(0):
        ...     first = torch.rand(3)
        >>> with torch_seed(0):
        ...     print(torch.equal(torch.rand(3), first))
        True
    """
    if seed is None:
        yield
        return
    with _generators_in_use, torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
