"""Mean and spread of draws: all that the fit of their Dirichlet needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from felbo import dirichlet

# Values converted to float64 at a time, so that temporaries fit into the cache.
_BLOCK = 65536


@dataclass(frozen=True)
class Spread:
    """Sufficient statistics of M draws at B inputs, for a later fit of their Dirichlet.

    The likelihood of the precision depends on the draws only through their mean ā and their spread
    ``D = Σ_k ā_k (log ā_k − l̄_k)`` per input, with l̄ the mean of their logarithms.

    Attributes:
        draws: M.
        value: D of the smoothed draws ``[B]``, float64.
        smoothing: γ of the smoothing.
        max_precision: upper bound of the fitted precision.
    """

    draws: int
    value: Tensor
    smoothing: float
    max_precision: float

    def fit(self, probs: Tensor) -> tuple[Tensor, Tensor]:
        """Return α ``[B, K]`` and z ``[B]`` of draws with mean ``probs [B, K]``."""
        mean = dirichlet.smooth(probs.double(), self.smoothing)
        cap = max(self.max_precision, float(probs.shape[-1]))
        fitted = dirichlet.fit_spread(mean, self.value, max_precision=cap)
        return fitted.concentration.to(probs.dtype), fitted.precision.to(probs.dtype)


def summarise(probs: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Reduce draws ``[M, B, K]`` to their mean ``[B, K]`` and their spread D ``[B]``."""
    if len(probs) == 1:
        # The spread of one draw is exactly 0, without rounding errors.
        return probs[0], probs.new_zeros(probs.shape[1], dtype=torch.float64)
    draws, _, classes = probs.shape
    blocks = torch.split(probs, max(_BLOCK // (draws * classes), 1), dim=1)
    spreads = [dirichlet.spread(dirichlet.smooth(block.double(), smoothing)) for block in blocks]
    return probs.mean(0), concatenate(spreads)


def concatenate(parts: Sequence[Tensor]) -> Tensor:
    """Join the results of batches, without a copy if there is only one."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
