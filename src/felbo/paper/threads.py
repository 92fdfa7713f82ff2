"""One torch thread for a unit of work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one torch thread inside the block and as many as before after it.

    Several processes with several threads each would fight over the cores. The number of threads
    also has a part in the rounding, so that numbers would depend on the number of processes.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
