r"""Solve the likelihood equation of the Dirichlet precision.

With the mean :math:`\bar a` fixed, the log-likelihood per draw is
:math:`L(z) = \ln\Gamma(z) - \sum_k \ln\Gamma(z \bar a_k) + z \sum_k \bar a_k \bar l_k`, and

.. math::
    L'(z) = G(z) / z - D, \qquad
    G(z) = \sum_k h(z \bar a_k) - h(z), \qquad
    D = \sum_k \bar a_k (\log \bar a_k - \bar l_k) \ge 0

with h from :mod:`felbo.dirichlet.special`. G lies between :math:`(K-1)/2` and :math:`K-1`, so the
root lies between Minka's initial value :math:`(K-1)/2D` and twice that, and
:math:`\log G(z) - \log z - \log D` is almost a straight line in :math:`\log z`, of slope
:math:`-Q/G` with :math:`Q(z) = \sum_k q(z \bar a_k) - q(z)`. A Newton step on that line is

.. math::
    z \leftarrow z \, (G / z D)^{G / Q}.

:math:`G / z` decreases monotonically, so there is exactly one root, and a step that leaves the
bracket from one of its ends shows that this end is the maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from felbo.dirichlet.special import h, h_rational, q_rational

MAX_ITERATIONS = 8
# Replaces the mean of a class with probability 0 in all draws.
TINY = 1e-300
# Initial z in units of Minka's; the root lies between 1 and 2. Other digits would change the
# recorded results.
MIDDLE = 1.414


class Solution(NamedTuple):
    """Precision, number of Newton steps and convergence of every item, each ``[...]``."""

    precision: Tensor
    iterations: Tensor
    converged: Tensor


def solve(
    mean: Tensor, spread: Tensor, lower: float, upper: float, tolerance: float = 1e-4
) -> Solution:
    r"""Find the precision in ``[lower, upper]`` with the highest likelihood.

    Args:
        mean: :math:`\bar a`, ``[..., K]``, float64.
        spread: :math:`D \ge 0`, ``[...]``, float64.
        lower: lower end of the bracket.
        upper: upper end of the bracket.
        tolerance: an item has converged after the first step with a smaller relative change. The
            slope is accurate to half a percent, so the error after a step is less than a hundredth
            of its length.

    Returns:
        The solution, each tensor ``[...]``. Items with NaN are reported as not converged.
    """
    equation = _Equation(mean.reshape(-1, mean.shape[-1]), spread.reshape(-1), lower, upper)
    z = equation.start()
    proposal = equation.step(z, h)
    iterations, converged = _compare(z, proposal, tolerance)
    for _ in range(1, MAX_ITERATIONS):
        # Under torch.func.vmap, bool() needs the unwrapped tensor.
        if bool(torch.func.debug_unwrap(converged).all()):
            break
        z = proposal
        proposal = torch.where(converged, z, equation.step(z, h))
        moved, converged = _compare(z, proposal, tolerance)
        iterations = iterations + moved
    return Solution(*(part.view(spread.shape) for part in (proposal, iterations, converged)))


def _compare(z: Tensor, proposal: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """Return 1 for each item that a step changed, and True for each that has converged."""
    change = (proposal - z).abs()
    return (change > 0).long(), change <= tolerance * z


class _Equation:
    """The likelihood equation of means ``[S, K]`` and spreads ``[S]``."""

    def __init__(self, mean: Tensor, spread: Tensor, lower: float, upper: float) -> None:
        # h and q are one for a class of mean zero, which is subtracted here. With a single present
        # class the likelihood would be constant; counting it as two gives such draws the precision
        # of equal draws.
        present = (mean > 0).sum(-1).clamp(min=2)
        self.half = 0.5 * (mean.shape[-1] - 1) - (mean.shape[-1] - present)
        self.middle = (MIDDLE * 0.5 * (present - 1)).div_(spread)
        self.spread, self.lower, self.upper = spread, lower, upper
        # The total, one, is appended as a further class with a negative sign.
        self.points = torch.cat((mean.clamp(min=TINY), torch.ones_like(mean[:, :1])), -1)
        self.signs = mean.new_ones(mean.shape[-1] + 1)
        self.signs[-1] = -1.0

    def start(self) -> Tensor:
        """Return z ``[S]`` within 1 % of the root, or at the nearest end of the bracket.

        One approximate step from the middle of the bounds of the root.
        """
        return self.step(self.middle.clamp(self.lower, self.upper), h_rational)

    def step(self, z: Tensor, h_less_half: Callable[[Tensor], Tensor]) -> Tensor:
        """Take a Newton step from ``z [S]``, clamped to the bracket."""
        x = z.unsqueeze(-1) * self.points
        g = self.half + h_less_half(x) @ self.signs
        q = torch.add(self.half, q_rational(x) @ self.signs, alpha=0.5)
        return (z * (g / (z * self.spread)) ** (g / q)).clamp(self.lower, self.upper)
