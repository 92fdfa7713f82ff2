"""Gaussians with independent components: draws, and their divergence in closed form."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def gaussian_kl(mean: Tensor, std: Tensor, prior_mean: float, prior_std: float) -> Tensor:
    """KL[N(m, s²) || N(m₀, s₀²)], summed over all components.

    ``Σ log(s₀ / s) + (s² + (m − m₀)²) / (2 s₀²) − ½``

    Args:
        mean: m, any shape.
        std: s, the same shape.
        prior_mean: m₀.
        prior_std: s₀.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> gaussian_kl(torch.zeros(3), torch.ones(3), 0.0, 1.0)
        tensor(0.)
    """
    quadratic = (std.square() + (mean - prior_mean).square()) / (2 * prior_std**2)
    return (math.log(prior_std) - std.log() + quadratic - 0.5).sum()


def standard_normal(size: int, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw ε ~ N(0, I), ``[size]``, with the dtype and device of ``like``."""
    if generator is None:
        # torch.compile rejects the generator argument together with a dynamic size.
        return torch.randn(size, dtype=like.dtype, device=like.device)
    return torch.randn(size, dtype=like.dtype, device=like.device, generator=generator)
