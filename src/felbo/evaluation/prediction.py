"""Prediction: class probabilities, the fitted Dirichlet and its uncertainties."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True, eq=False)
class Prediction:
    """Class probabilities and the fitted Dirichlet, for B inputs.

    The Dirichlet is fitted to the draws lazily, on first access to ``concentration``,
    ``precision`` or one of the uncertainties, and cached.

    Args:
        probs: mean of the draws' class probabilities ``[B, K]``.
        source: the spread of the draws, or the concentration ``[B, K]`` itself if the model
            predicts it.

    Attributes:
        probs: mean of the draws' class probabilities ``[B, K]``.
    """

    probs: Tensor
    source: Spread | Tensor

    @cached_property
    def _dirichlet(self) -> tuple[Tensor, Tensor]:
        if isinstance(self.source, Tensor):
            return self.source, self.source.sum(-1)
        return self.source.fit(self.probs)

    @property
    def concentration(self) -> Tensor:
        """α of the Dirichlet fitted to the draws ``[B, K]``."""
        return self._dirichlet[0]

    @property
    def precision(self) -> Tensor:
        """Sum z of the concentration ``[B]``; large where the draws agree."""
        return self._dirichlet[1]

    @property
    def labels(self) -> Tensor:
        """Most probable class ``[B]``."""
        return self.probs.argmax(-1)

    @property
    def confidence(self) -> Tensor:
        """Probability of the most probable class ``[B]``."""
        return self.probs.amax(-1)

    @property
    def is_random(self) -> bool:
        """True if there are several draws, or the model predicts a Dirichlet directly."""
        return isinstance(self.source, Tensor) or self.source.draws > 1

    @cached_property
    def _uncertainty(self) -> dirichlet.Uncertainty:
        return dirichlet.uncertainty(self.concentration)

    @property
    def total(self) -> Tensor:
        """Entropy of the Dirichlet's mean, in nats ``[B]``."""
        return self._uncertainty.total

    @property
    def aleatoric(self) -> Tensor:
        """Expected entropy under the Dirichlet, which more data cannot reduce ``[B]``.

        For a single draw the two kinds cannot be separated: this is the total entropy.
        """
        return self._uncertainty.aleatoric if self.is_random else self._uncertainty.total

    @property
    def epistemic(self) -> Tensor:
        """Mutual information of label and function, which more data can reduce ``[B]``.

        NaN, with a warning, for a single draw.
        """
        if not self.is_random:
            warnings.warn(
                "One draw has no epistemic uncertainty to show: it is NaN. Use total, or a model "
                "with several draws (MCDropout, Ensemble, Radial, Rank1).",
                stacklevel=2,
            )
            return torch.full_like(self._uncertainty.epistemic, torch.nan)
        return self._uncertainty.epistemic

    def __len__(self) -> int:
        """Return B."""
        return len(self.probs)


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
