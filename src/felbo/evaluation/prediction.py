"""Class probabilities with the Dirichlet behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from felbo import dirichlet
from felbo._constants import scalar
from felbo.dirichlet._statistics import spread_of_draws


@dataclass(frozen=True)
class Spread:
    """What is left of M draws at B inputs: enough to fit their Dirichlet later.

    Besides the mean ā, the likelihood of the precision needs of the draws only the number
    ``D = Σ_k ā_k (log ā_k − l̄_k)`` per input, with l̄ the mean of their logarithms.

    Attributes:
        value: D of the smoothed draws ``[B]``, float64.
        smoothing: γ of the smoothing.
        max_precision: cap of the fitted precision.
    """

    value: Tensor
    smoothing: float
    max_precision: float

    def fit(self, probs: Tensor) -> tuple[Tensor, Tensor]:
        """Return α ``[B, K]`` and z ``[B]`` of draws with mean ``probs [B, K]``."""
        mean = dirichlet.smooth(probs.double(), self.smoothing)
        # Any l̄ with the same D has the same maximum.
        mean_log = mean.log() - self.value.unsqueeze(-1)
        cap = max(self.max_precision, float(probs.shape[-1]))
        fitted = dirichlet.fit_statistics(mean, mean_log, max_precision=cap)
        return fitted.concentration.to(probs.dtype), fitted.precision.to(probs.dtype)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Class probabilities and the Dirichlet behind them, for B inputs.

    Probabilities are there at once. The Dirichlet is fitted to the draws when it is first asked
    for: by ``concentration``, ``precision`` or one of the uncertainties.

    Args:
        probs: mean of the draws' class probabilities ``[B, K]``.
        source: the spread of the draws, or the concentration ``[B, K]`` itself where a model gives
            one.

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

    @cached_property
    def _uncertainty(self) -> dirichlet.Uncertainty:
        return dirichlet.uncertainty(self.concentration)

    @property
    def total(self) -> Tensor:
        """Entropy of the Dirichlet's mean, in nats ``[B]``."""
        return self._uncertainty.total

    @property
    def aleatoric(self) -> Tensor:
        """Expected entropy under the Dirichlet: what no model could resolve ``[B]``."""
        return self._uncertainty.aleatoric

    @property
    def epistemic(self) -> Tensor:
        """Mutual information of label and function: what more data could resolve ``[B]``."""
        return self._uncertainty.epistemic

    def __len__(self) -> int:
        """Return B."""
        return len(self.probs)


def summarise(probs: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Reduce draws ``[M, B, K]`` to their mean ``[B, K]`` and their D ``[B]``.

    The draws are overwritten: they are the largest tensor of a prediction.
    """
    if len(probs) == 1:
        # One draw has no spread; rounding must not give it one.
        mean = probs[0]
        return mean, torch.zeros(len(mean), dtype=torch.float64, device=mean.device)
    if smoothing == 0.0:
        mean, spread = spread_of_draws(probs)
        return mean.to(probs.dtype), spread
    draws, classes = len(probs), probs.shape[-1]
    mean = probs.mean(0)
    # D is a small difference if the draws nearly agree. With e = f / f_1 − 1, which is small then
    # and exact, it is Σ_k ā_k (log(1 + ē_k) − mean log(1 + e_k)).
    first = torch.add(scalar(smoothing / classes, probs), probs[0], alpha=1 - smoothing)
    excess = probs[1:].sub_(probs[0]).mul_(torch.div(scalar(1 - smoothing, probs), first))
    mean_excess = excess.sum(0).mul_(1.0 / draws)
    gap = mean_excess.log1p().sub_(excess.log1p_().sum(0), alpha=1.0 / draws)
    smoothed_mean = torch.addcmul(first, first, mean_excess)
    return mean, gap.mul_(smoothed_mean).sum(-1).clamp_(min=0.0).double()


def concatenate(parts: Sequence[Tensor]) -> Tensor:
    """Join the results of batches, without a copy if there is only one."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
