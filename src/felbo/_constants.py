"""Small constant tensors, made once: making one takes as long as using it."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


@lru_cache(maxsize=512)
def scalar(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return ``value`` as a tensor without axes. It is shared: never change it in place.

    With a tensor, ``c + a x`` and ``c + x y`` are one operation each (``torch.add``,
    ``torch.addcmul``), and PyTorch need not convert a Python number in every call.
    """
    with torch.inference_mode(False):
        return torch.tensor(value, dtype=dtype, device=device)


@lru_cache(maxsize=64)
def ones(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a shared vector of ones ``[size]``; never change it in place."""
    with torch.inference_mode(False):
        return torch.ones(size, dtype=dtype, device=device)
