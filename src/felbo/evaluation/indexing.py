"""Select inputs of a prediction by numbers, slices and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def selected_rows(index: Any, items: int) -> Tensor:
    """Return the numbers ``[S]`` of the items that an index selects, on the CPU.

    Args:
        index: a number, a slice, a sequence, array or tensor of numbers, or a mask ``[B]``.
        items: B.

    Example:
        >>> selected_rows(-1, 5), selected_rows([True, False, True], 3)
        (tensor([4]), tensor([0, 2]))
    """
    if isinstance(index, slice):
        return torch.from_numpy(np.arange(items)[index].copy())  # torch takes no negative steps
    chosen = _as_array(index.cpu() if isinstance(index, Tensor) else index)
    if chosen.dtype == bool and chosen.shape != (items,):
        raise IndexError(f"A mask needs one value per input, [{items}], got {list(chosen.shape)}.")
    if chosen.ndim > 1 or (chosen.dtype.kind not in "biu" and chosen.size):
        raise IndexError(
            "A prediction is indexed by input numbers: one, a slice, or a one-dimensional list, "
            f"tensor or mask; got {index!r}."
        )
    if chosen.dtype == bool:
        return torch.from_numpy(chosen.nonzero()[0])
    numbers = torch.from_numpy(chosen.astype(np.int64)).reshape(-1)
    outside = (numbers < -items) | (numbers >= items)
    if bool(outside.any()):
        raise IndexError(f"Input {int(numbers[outside][0])} of a prediction for {items} inputs.")
    return numbers % items if items else numbers


def _as_array(index: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(index)
    except ValueError:  # of parts of unequal lengths
        return np.array([[None]])
