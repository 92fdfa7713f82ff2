r"""Function-space KL from two means over the draws, which processes can sum.

With α held constant, the KL and its gradient depend on the draws only through their mean
:math:`\bar a` and the mean :math:`\bar l` of ``log f``:

``KL = Σ (α − β) l̄ − log B(α) + log B(β)``,  ``∂KL/∂log f_m = (α − β) / M``.

A process that holds some of the members of an ensemble needs nothing else of the others.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from felbo import dirichlet
from felbo.dirichlet.precision import solve
from felbo.distributed import ShardedEnsemble
from felbo.models import unwrap


def sharded(model: nn.Module) -> ShardedEnsemble | None:
    """Return the ensemble in ``model`` whose members are divided among processes, if it is one."""
    found = unwrap(model)
    return found if isinstance(found, ShardedEnsemble) else None


def means_over_draws(logits: Tensor, smoothing: float, smallest: float) -> Tensor:
    """Return the means of f and of log f over the draws, ``[2, S, K]`` in float64.

    Args:
        logits: draws ``[M, S, K]``.
        smoothing: γ of ``f = (1 − γ) softmax + γ / K``.
        smallest: lower bound of f.
    """
    f = dirichlet.smooth(logits.double().softmax(-1), smoothing).clamp(min=smallest)
    return torch.stack([f.mean(0), f.log().mean(0)])


def kl_from_means(
    means: Tensor, draws: int, beta: Tensor, max_precision: float, tolerance: float
) -> Tensor:
    """Return the KL from the prior at each point, its gradient with α held constant.

    Args:
        means: of f and of log f over all draws, ``[2, S, K]`` in float64.
        draws: M, over all processes.
        beta: concentration of the prior ``[S, K]`` or ``[K]``.
        max_precision: upper bound of the fitted precision, and the precision of a single draw.
        tolerance: largest last Newton step in the precision, relative.

    Returns:
        ``[S]`` in float64.
    """
    mean, mean_log = means.unbind()
    with torch.no_grad():
        if draws == 1:
            z = torch.full_like(mean[..., 0], max_precision)
        else:
            spread = (mean * (mean.log() - mean_log)).sum(-1).clamp(min=0.0)
            z = solve(mean, spread, float(mean.shape[-1]), max_precision, tolerance).precision
        alpha = z.unsqueeze(-1) * mean
    beta = beta.double()
    normalizers = dirichlet.log_normalizer(beta) - dirichlet.log_normalizer(alpha)
    return ((alpha - beta) * mean_log).sum(-1) + normalizers
