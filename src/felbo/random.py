"""Seeding of random number generators."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

# Held during a seeded block, since all threads share torch's default generators.
_generators_in_use = threading.RLock()


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch (all devices), so that a script is reproducible."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  scikit-learn estimators without a random_state read this one
    torch.manual_seed(seed)


@contextmanager
def torch_seed(seed: int | None) -> Iterator[None]:
    """Context manager: seed torch inside the block and restore its generators afterwards.

    torch's default generators are shared by the whole process, so seeded blocks in different
    threads run one after another; nested blocks of the same thread do not wait. A thread that draws
    *without* a seed in the meantime still draws from the same generators.

    Args:
        seed: of the block; ``None`` does nothing, and does not wait for other threads.

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
