"""Random numbers on the device of a batch, from a generator on any device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def uniform(shape: Sequence[int], x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw from U[0, 1) on the device of ``x``, in its dtype or float32."""
    device = x.device if generator is None else generator.device
    dtype = torch.promote_types(x.dtype, torch.float32)
    return torch.rand(shape, generator=generator, device=device, dtype=dtype).to(x.device)


def normal(shape: Sequence[int], x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw from N(0, 1) on the device of ``x``, in its dtype or float32."""
    device = x.device if generator is None else generator.device
    dtype = torch.promote_types(x.dtype, torch.float32)
    return torch.randn(shape, generator=generator, device=device, dtype=dtype).to(x.device)


def integers(
    low: int, high: int, shape: Sequence[int], x: Tensor, generator: torch.Generator | None
) -> Tensor:
    """Draw integers from ``low`` to ``high``, the latter included, on the device of ``x``."""
    device = x.device if generator is None else generator.device
    drawn = torch.randint(low, high + 1, shape, generator=generator, device=device)
    return drawn.to(x.device)


def permutation(length: int, generator: torch.Generator | None) -> Tensor:
    """Draw a permutation of 0 … length − 1, on the device of the generator or the CPU."""
    device = "cpu" if generator is None else generator.device
    return torch.randperm(length, generator=generator, device=device)


def permutations(count: int, length: int, x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw ``count`` independent permutations of 0 … length − 1, ``[count, length]``."""
    return uniform((count, length), x, generator).argsort(1)


def partners(rows: Tensor, x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw for each row ``[S]`` the index of another item of the batch; of itself if B = 1."""
    if len(x) == 1:
        return rows
    return (rows + integers(1, len(x) - 1, rows.shape, x, generator)) % len(x)
