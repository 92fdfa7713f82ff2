r"""The function-space KL of draws f ``[M, S, K]``, with their means ā of f and l̄ of ``log f``.

Since α and β are the same for all draws at a point, only the mean of ``log f`` enters:

``mean_s [log B(β) − log B(α) + Σ_k (α_k − β_k) l̄_k],  log B(α) = Σ_k lnΓ(α_k) − lnΓ(Σ_k α_k)``

Terms of size N log N cancel here: in float32 they would leave errors of 0.1 nats, so all of this
sum is float64.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from felbo import dirichlet
from felbo.dirichlet._fit import precision_of_statistics


class PriorAt(NamedTuple):
    """The prior at the measurement points.

    Attributes:
        beta: its concentration ``[S, K]``, ``[K]`` for all points or ``[]`` for all classes too,
            float64.
        slope: ``−β`` in the dtype of the draws, or as a number.
        log_normalizer: mean of ``log B(β)`` over the points, a scalar.
        cap: N, the largest precision of the posterior.
        cap_vector: N as ``[1]`` in float64, which makes a float32 factor float64 on the way.
        one_draw: all of the KL for one draw that does not depend on it, a scalar.
    """

    beta: Tensor
    slope: Tensor | float
    log_normalizer: Tensor
    cap: float
    cap_vector: Tensor
    one_draw: Tensor

    @classmethod
    def of(cls, concentration: Tensor, cap: float, dtype: torch.dtype) -> PriorAt:
        """Prepare a prior for draws in ``dtype`` and precisions up to ``cap``."""
        beta = concentration.double()
        largest, normalizer = beta.new_full((1,), cap), dirichlet.log_normalizer(beta).mean()
        one_draw = torch.lgamma(largest) + (beta.sum(-1).mean() - largest) * largest.log()
        slope: Tensor | float = -beta.to(dtype)
        if beta.dim() == 1 and beta.device.type == "cpu" and bool((beta == beta[0]).all()):
            # A processor combines short rows with a number more quickly than with a row.
            beta, slope = beta[0], -float(beta[0])
        return cls(beta, slope, normalizer, cap, largest, normalizer + one_draw.squeeze())


def kl_of_one_draw(draws: Tensor, prior: PriorAt) -> tuple[Tensor, Tensor | float]:
    """Return the KL for ``α = N f``, and the derivative of S times it by ``log f``, α constant.

    The derivative is −β in place of α − β: the missing ``N Σ_k ∂f_k`` is zero since f sums to one.
    It does so up to rounding, which lnΓ(Σ α) must take into account like the other terms. It is
    ``lnΓ(N) + (Σ α − N) log N`` up to a term of half the rounding; with ``log f = log α − log N``
    that leaves ``lnΓ(N) + (Σ β − N) log N + Σ (α − β) log α``.

    Args:
        draws: f ``[1, S, K]``.
        prior: at the same points.
    """
    alpha = draws * prior.cap_vector
    terms = torch.addcmul(torch.lgamma(alpha), alpha - prior.beta, alpha.log(), value=-1.0).sum()
    return torch.add(prior.one_draw, terms, alpha=-1.0 / draws.shape[1]), prior.slope


def kl_of_draws(draws: Tensor, prior: PriorAt, *, positive: bool) -> tuple[Tensor, Tensor]:
    """Return the KL for α fitted to the draws, and the derivative of S times it by l̄, α constant.

    Args:
        draws: f ``[M, S, K]``; if they require a gradient, the KL has one through the fit.
        prior: at the same points.
        positive: whether no mean of the draws can be zero, as after smoothing.
    """
    mean, mean_log = draws.mean(0), draws.log().mean(0)
    precision = precision_of_statistics(
        mean,
        mean_log,
        float(mean.shape[-1]),
        prior.cap,
        differentiable=mean.requires_grad,
        positive=positive,
    )
    alpha = precision.unsqueeze(-1) * mean
    excess = alpha - prior.beta
    terms = torch.addcmul(torch.lgamma(alpha), excess, mean_log, value=-1.0).sum()
    value = torch.lgamma(alpha.sum(-1)).sum() - terms
    return torch.add(prior.log_normalizer, value, alpha=1.0 / len(mean)), excess.to(mean.dtype)
