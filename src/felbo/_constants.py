"""Small constant tensors, made once: making one takes as long as using it."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


def scalar(value: float, like: Tensor) -> Tensor:
    """Return ``value`` as a tensor without axes, of the dtype and on the device of another.

    With a tensor, ``c + a x`` and ``c + x y`` are one operation each (``torch.add``,
    ``torch.addcmul``), and PyTorch need not convert a Python number in every call. It is shared:
    never change it in place.
    """
    return filled(value, (), like)


def filled(value: float, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Return a shared tensor that holds ``value`` everywhere; never change it in place."""
    return _full(value, shape, like.dtype, like.device)


@lru_cache(maxsize=512)
def _full(value: float, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return torch.full(shape, value, dtype=dtype, device=device)
