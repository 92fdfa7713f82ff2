"""Memory for one large tensor after another, without asking the system for it each time."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

# More than are in use at once by a loop that looks at one batch at a time.
_KEPT = 3


class Memory:
    """Memory that is used again as soon as nobody looks at it.

    A block of some megabytes that is freed goes back to the system, which has to find and clear
    every page of the next one. Here blocks are kept. A tensor holds, through its storage, an array
    of its own on a block; as long as a view of the tensor is in anyone's hands that array lives,
    and the block is not given away.
    """

    def __init__(self) -> None:
        self._blocks: list[tuple[np.ndarray[Any, Any], weakref.ref[Any]]] = []

    def __reduce__(self) -> tuple[type[Memory], tuple[()]]:
        """Copy and pickle without the blocks."""
        return Memory, ()

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return a tensor on the CPU with arbitrary values."""
        size = math.prod(shape) * dtype.itemsize
        block = self._free_block(size)
        array = block[:size]
        if len(self._blocks) < _KEPT:
            self._blocks.append((block, weakref.ref(array)))
        return torch.from_numpy(array).view(dtype).view(shape)

    def _free_block(self, size: int) -> np.ndarray[Any, Any]:
        free = [index for index, (_, user) in enumerate(self._blocks) if user() is None]
        for index in free:
            if self._blocks[index][0].nbytes >= size:
                return self._blocks.pop(index)[0]
        if free:
            # Too small: a larger one takes its place.
            del self._blocks[free[0]]
        # Made by torch, since it begins at an address that vector instructions like.
        return torch.empty(size, dtype=torch.uint8, device="cpu").numpy()
