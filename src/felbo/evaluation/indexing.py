"""Select inputs of a prediction by numbers, slices and masks."""

from __future__ import annotations

from typing import Any

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
        return torch.arange(items)[index]
    chosen = torch.as_tensor(index).cpu()
    if chosen.dtype == torch.bool and chosen.shape != (items,):
        raise IndexError(f"A mask needs one value per input, [{items}], got {list(chosen.shape)}.")
    if chosen.dim() > 1 or (chosen.is_floating_point() and chosen.numel()):
        raise IndexError(
            "A prediction is indexed by input numbers: one, a slice, or a one-dimensional list, "
            f"tensor or mask; got {index!r}."
        )
    if chosen.dtype == torch.bool:
        return chosen.nonzero()[:, 0]
    numbers = chosen.long().reshape(-1)
    outside = (numbers < -items) | (numbers >= items)
    if bool(outside.any()):
        raise IndexError(f"Input {int(numbers[outside][0])} of a prediction for {items} inputs.")
    return numbers % items if items else numbers
