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
        if torch.accelerator.is_available():
            torch.manual_seed(seed)
        else:
            # The same numbers, without the call stack that torch collects for a device that may
            # come later: 0.3 ms, as much as a small network takes for a batch.
            torch.default_generator.manual_seed(int(seed))
        yield


class RandomStream:
    """Seeded random numbers of torch's default generators, in blocks that continue each other.

    Outside its blocks the generators are as they were, so that random numbers drawn between two
    blocks do not change those drawn inside, and the other way round. Blocks in different threads
    run one after another.

    Args:
        seed: of the first block; ``None``: blocks use the generators as they are.

    Example:
        >>> stream = RandomStream(0)
        >>> with stream.block():
        ...     first = torch.rand(1)
        >>> with stream.block():
        ...     second = torch.rand(1)
        >>> with torch_seed(0):
        ...     print(torch.equal(torch.rand(2), torch.cat([first, second])))
        True
    """

    def __init__(self, seed: int | None) -> None:
        self._states: list[torch.Tensor] | None = None
        self._inside = False
        if seed is not None:
            with torch_seed(seed):
                self._states = _generator_states()

    @contextmanager
    def block(self) -> Iterator[None]:
        """Context manager: draw from the stream inside the block."""
        if self._states is None:
            yield
            return
        with _generators_in_use:
            outside = _generator_states()
            _set_generator_states(self._states)
            self._inside = True
            try:
                yield
            finally:
                self._inside = False
                self._states = _generator_states()
                _set_generator_states(outside)

    def get_states(self) -> list[torch.Tensor]:
        """Return where the stream stands, inside a block or between two."""
        if self._states is None or self._inside:
            return _generator_states()
        return [state.clone() for state in self._states]

    def set_states(self, states: list[torch.Tensor]) -> None:
        """Continue from what :meth:`get_states` returned, inside a block or between two."""
        if self._states is None or self._inside:
            _set_generator_states(states)
        else:
            self._states = states


def _generator_states() -> list[torch.Tensor]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return [torch.get_rng_state(), *cuda]


def _set_generator_states(states: list[torch.Tensor]) -> None:
    torch.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state_all(states[1:])
