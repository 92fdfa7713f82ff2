r"""Solve the likelihood equation of the Dirichlet precision.

With the mean :math:`\bar a` fixed, the log-likelihood per draw
:math:`L(z) = \ln\Gamma(z) - \sum_k \ln\Gamma(z \bar a_k) + z \sum_k \bar a_k \bar l_k` has the derivative

.. math::
    L'(z) = G(z) / z - D, \qquad
    G(z) = \sum_k h(z \bar a_k) - h(z), \qquad
    D = \sum_k \bar a_k (\log \bar a_k - \bar l_k) \ge 0

(:math:`h` from ``_special``). :math:`G` only ever moves between :math:`(K-1)/2` and :math:`K-1`, so that
:math:`\log G(z) - \log z - \log D` is almost a straight line in :math:`\log z`, with slope
:math:`-Q/G`, :math:`Q(z) = \sum_k q(z \bar a_k) - q(z)`. Newton steps on it converge in very few rounds from
anywhere, and :math:`L'` has exactly one root: a step that leaves the bracket shows that the maximum lies there.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from felbo.dirichlet._special import h_and_q

MAX_ITERATIONS = 8
TOLERANCE = 1e-5
# Stands in for an exact zero of the mean: h and q are exactly one there, which is then subtracted again.
_TINY = 1e-300


class Solution(NamedTuple):
    """Precision ``[...]`` (float64), iterations ``[...]`` and convergence ``[...]`` of every item."""

    precision: Tensor
    iterations: Tensor
    converged: Tensor


def g_and_q(precision: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    r"""Evaluate :math:`G(z)` and :math:`Q(z)` over the classes whose mean is not zero.

    Args:
        precision: ``[...]``, float64.
        mean: ``[..., K]``, float64.

    Returns:
        Two tensors ``[...]``. Where a single class has a mean above zero every precision is as likely as
        any other; both are then one, as if a second class were about to appear.
    """
    absent = (mean <= 0).sum(-1).clamp_(max=mean.shape[-1] - 2)
    h, q = h_and_q((precision.unsqueeze(-1) * mean).clamp_(min=_TINY))
    h_total, q_total = h_and_q(precision)
    return h.sum(-1) - h_total - absent, q.sum(-1) - q_total - absent


@torch.no_grad()
def solve(mean: Tensor, spread: Tensor, min_precision: float, max_precision: float) -> Solution:
    r"""Find the precision in ``[min_precision, max_precision]`` with the highest likelihood.

    Args:
        mean: :math:`\bar a`, ``[..., K]``, float64.
        spread: :math:`D`, ``[...]``, float64; zero when the draws agree, infinite when one of them rules
            out a class that another one allows.
        min_precision: Lower end of the bracket.
        max_precision: Upper end of the bracket.

    Returns:
        The solution, each tensor ``[...]``.
    """
    classes = mean.shape[-1]
    spread = spread.clamp(min=0)
    z = ((classes - 1) / (2 * spread)).clamp_(min_precision, max_precision)
    iterations = torch.zeros_like(z, dtype=torch.int64)
    active = torch.ones_like(z, dtype=torch.bool)
    for _ in range(MAX_ITERATIONS):
        g, q = g_and_q(z, mean)
        step = torch.log(g / (z * spread)) * (g / q)
        proposal = (z * torch.exp(step)).clamp_(min_precision, max_precision)
        proposal = torch.where(active, proposal, z)
        iterations += proposal != z
        active = (proposal - z).abs() > TOLERANCE * z
        z = proposal
        if not bool(active.any()):
            break
    return Solution(z, iterations, ~active)
