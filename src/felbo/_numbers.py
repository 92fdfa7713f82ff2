"""Checks of arguments that are numbers, and the dtype of results."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from felbo.errors import SettingError

_BOOLEANS = (bool, np.bool_)


def refuse_booleans(**settings: object) -> None:
    """Raise if a setting that is a number is True or False, which Python takes for 1 and 0.

    Args:
        settings: values by their names; those that are no numbers at all are left to other checks.

    Example:
        >>> refuse_booleans(epochs=10, patience=None)
        >>> refuse_booleans(epochs=True)
        Traceback (most recent call last):
        felbo.errors.SettingError: epochs must be a number, got True: write 1 if that is meant.
    """
    for name, value in settings.items():
        if isinstance(value, _BOOLEANS):
            raise SettingError(
                f"{name} must be a number, got {value}: write {int(value)} if that is meant."
            )


def whole_number(name: str, value: Any) -> int:
    """Return a count as an int; raise unless it is a whole number of at least 1.

    Args:
        name: of the setting, for the message.
        value: a number of any type, such as one of numpy; ``2.0`` counts as 2.

    Example:
        >>> whole_number("epochs", 10.0)
        10
        >>> whole_number("epochs", 2.5)
        Traceback (most recent call last):
        felbo.errors.SettingError: epochs must be a whole number of at least 1, got 2.5.
    """
    refuse_booleans(**{name: value})
    if not isinstance(value, Real) or not 1 <= float(value) < float("inf") or float(value) % 1:
        raise SettingError(f"{name} must be a whole number of at least 1, got {value}.")
    return int(float(value))


def floating_dtype(*tensors: Tensor) -> torch.dtype:
    """Return the dtype of a result that cannot be an integer, promoted as torch does.

    Example:
        >>> floating_dtype(torch.tensor([1, 2])), floating_dtype(torch.zeros(1).half())
        (torch.float32, torch.float16)
    """
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype if dtype.is_floating_point else torch.get_default_dtype()
