r"""Maximum-likelihood fit of all concentrations of a Dirichlet, mean and precision.

.. math::
    L(\alpha) = \ln\Gamma(\textstyle\sum_k \alpha_k) - \sum_k \ln\Gamma(\alpha_k)
    + \sum_k (\alpha_k - 1) \bar l_k

is concave and depends on the draws through the mean of their logarithms :math:`\bar l` only. Its
Hessian is a diagonal matrix plus a multiple of ones, so that a Newton step takes O(K) operations
(Minka, 2000, "Estimating a Dirichlet distribution"). At the maximum :math:`\partial L / \partial
\alpha = 0`: the derivative of the mean log-density of the draws through :math:`\alpha` vanishes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from felbo.dirichlet.precision import Solution
from felbo.errors import DataError

MAX_ITERATIONS = 200
TOLERANCE = 1e-9
# Largest relative change of a concentration per step: the quadratic expansion of L holds locally.
LONGEST = 0.9


def solve_concentration(mean_log: Tensor, start: Tensor) -> tuple[Tensor, Solution]:
    r"""Maximise L by a damped Newton method.

    Args:
        mean_log: :math:`\bar l`, ``[..., K]``, float64, finite, with :math:`\sum_k e^{\bar l_k}
            < 1`.
        start: initial :math:`\alpha`, ``[..., K]``.

    Returns:
        :math:`\alpha` ``[..., K]``, and its precision with the number of steps and convergence.
    """
    alpha = start.clone()
    iterations = torch.zeros(alpha.shape[:-1], dtype=torch.int64, device=alpha.device)
    for _ in range(MAX_ITERATIONS):
        step = newton_step(alpha, mean_log)
        change = (step / alpha).abs().amax(-1)
        moving = change > TOLERANCE
        if not bool(moving.any()):
            break
        shorter = (LONGEST / change.clamp(min=LONGEST)).unsqueeze(-1)
        alpha = torch.where(moving.unsqueeze(-1), alpha + shorter * step, alpha)
        iterations = iterations + moving.long()
    return alpha, Solution(alpha.sum(-1), iterations, change <= TOLERANCE)


def newton_step(alpha: Tensor, mean_log: Tensor) -> Tensor:
    r"""Return :math:`-H^{-1} \nabla L`, with the inverse by the Sherman–Morrison formula."""
    total = alpha.sum(-1, keepdim=True)
    slope = torch.digamma(total) - torch.digamma(alpha) + mean_log
    inverse = torch.polygamma(1, alpha).reciprocal()
    shared = (slope * inverse).sum(-1, keepdim=True)
    weight = torch.polygamma(1, total).reciprocal() - inverse.sum(-1, keepdim=True)
    return inverse * (slope + shared / weight)


def check_has_maximum(mean_log: Tensor) -> None:
    r"""Raise if all draws are equal or one has a probability of 0: L is then unbounded.

    By Jensen's inequality :math:`\sum_k e^{\bar l_k} \le 1`, with equality if all draws are equal.
    """
    if not bool(mean_log.isfinite().all()):
        raise DataError(
            "A draw is zero for some class: smooth the draws before a fit with mean='free'."
        )
    if bool((mean_log.exp().sum(-1) >= 1.0 - 1e-13).any()):
        raise DataError(
            "All draws of some item agree: a fit with mean='free' has no maximum there. Take "
            "mean='draws' with max_precision, or at least two different draws."
        )
