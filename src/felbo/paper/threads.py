"""Context manager that limits torch to one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one torch thread inside the block; restore the number of threads after it.

    Several processes with several threads each would oversubscribe the cores. The number of threads
    also affects rounding, so that results would depend on the number of processes.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
