r"""Solve the likelihood equation of the Dirichlet precision.

With the mean :math:`\bar a` fixed, the log-likelihood per draw is
:math:`L(z) = \ln\Gamma(z) - \sum_k \ln\Gamma(z \bar a_k) + z \sum_k \bar a_k \bar l_k`, and

.. math::
    L'(z) = G(z) / z - D, \qquad
    G(z) = \sum_k h(z \bar a_k) - h(z), \qquad
    D = \sum_k \bar a_k (\log \bar a_k - \bar l_k) \ge 0

with :math:`h` from ``_special``. G only ever moves between :math:`(K-1)/2` and :math:`K-1`, so the
root lies between Minka's start :math:`(K-1)/2D` and twice that, and
:math:`\log G(z) - \log z - \log D` is almost a straight line in :math:`\log z`, of slope
:math:`-Q/G` with :math:`Q(z) = \sum_k q(z \bar a_k) - q(z)`. A Newton step on that line is

.. math::
    z \leftarrow z \, (G / z D)^{G / Q}.

:math:`G / z` falls monotonically, hence there is one root, and a step from an end of the bracket
out of it shows that this end is the maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from felbo.dirichlet import _special
from felbo.dirichlet._statistics import TINY, items_per_block

MAX_ITERATIONS = 8


class Solution(NamedTuple):
    """Precision (float64), number of Newton steps and convergence of every item, each ``[...]``."""

    precision: Tensor
    iterations: Tensor
    converged: Tensor


class _Equation:
    """The likelihood equation of a block: mean ``[S, K]`` and spread ``[S]``, float64."""

    def __init__(self, mean: Tensor, spread: Tensor, lower: float, upper: float) -> None:
        classes = mean.shape[-1]
        self.spread = spread
        self.lower, self.upper = lower, upper
        self.weights = mean.new_ones(classes + 1)
        # A class of mean zero drops out: h and q are one there, and that is taken back. One class
        # alone would make every precision equally likely; it is given a second one, as if about to
        # appear, so that draws which agree on it count as agreeing.
        present = torch.mv(mean.sign(), self.weights[:-1]).clamp_(min=2.0)
        self.offset = present.sub(float(classes))
        self.minka = present.sub_(1.0).div_(spread).mul_(0.5)
        # The total rides along as one more class, of weight -1.
        self.points = torch.nn.functional.pad(mean, (0, 1), value=1.0).clamp_(min=TINY)
        self.weights[-1] = -1.0

    def step(self, z: Tensor, h: Callable[[Tensor], Tensor]) -> Tensor:
        """Take a Newton step from ``z`` ``[S]`` with ``h`` in G, and stay inside the bracket."""
        x = z.unsqueeze(-1) * self.points
        q = torch.addmv(self.offset, _special.q_rational(x), self.weights)
        g = torch.addmv(self.offset, h(x), self.weights)
        power = g / q
        return g.div_(z * self.spread).pow_(power).mul_(z).clamp_(self.lower, self.upper)

    def solve(self, tolerance: float) -> Solution:
        # Halfway (in the logarithm) between the two bounds of the root, a rational step is off by
        # less than 1 %, and one exact step from there by less than 3e-5.
        start = self.minka.mul_(1.414).clamp_(self.lower, self.upper)
        z = self.step(start, _special.h_rational)
        proposal = self.step(z, _special.h)
        change = (proposal - z).abs_()
        iterations = change.sign().long()
        converged = change <= tolerance * z
        for _ in range(1, MAX_ITERATIONS):
            z = proposal
            if bool(converged.all()):
                break
            proposal = torch.where(converged, z, self.step(z, _special.h))
            change = (proposal - z).abs_()
            iterations += change > 0
            converged = change <= tolerance * z
        return Solution(proposal, iterations, converged)


@torch.no_grad()
def solve(
    mean: Tensor, spread: Tensor, min_precision: float, max_precision: float, tolerance: float
) -> Solution:
    r"""Find the precision in ``[min_precision, max_precision]`` with the highest likelihood.

    Args:
        mean: :math:`\bar a`, ``[..., K]``, float64.
        spread: :math:`D \ge 0`, ``[...]``, float64.
        min_precision: Lower end of the bracket.
        max_precision: Upper end of the bracket.
        tolerance: An item ends with the first step that moves it by less than this fraction. The
            slope is good to half a percent, so a step leaves less than a hundredth of its length.

    Returns:
        The solution, each tensor ``[...]``. An item that holds NaN is reported as not converged.
    """
    size = items_per_block(mean.shape[-1], mean)
    items, spreads = mean.reshape(-1, mean.shape[-1]), spread.reshape(-1)
    blocks = [
        _Equation(block, block_spread, min_precision, max_precision).solve(tolerance)
        for block, block_spread in zip(
            torch.split(items, size), torch.split(spreads, size), strict=True
        )
    ]
    columns = blocks[0] if len(blocks) == 1 else map(torch.cat, zip(*blocks, strict=True))
    return Solution(*(column.reshape(spread.shape) for column in columns))
