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

:math:`G / z` falls monotonically, hence there is one root, and a step from an end of the bracket out
of it shows that this end is the maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from felbo.dirichlet import _special

MAX_ITERATIONS = 8
# A mean below this counts as zero: h and q are exactly one there, and that is subtracted again.
TINY = 1e-300
# Elements per thread that a round works on: the temporaries of a block then stay in the cache.
_BLOCK = 32768


class Solution(NamedTuple):
    """Precision (float64), number of Newton steps and convergence of every item, each ``[...]``."""

    precision: Tensor
    iterations: Tensor
    converged: Tensor


class _Equation:
    """The likelihood equation of a block of items: mean ``[S, K]``, spread ``[S]``, both float64."""

    def __init__(self, mean: Tensor, spread: Tensor, lower: float, upper: float) -> None:
        classes = mean.shape[-1]
        self.spread = spread
        self.lower, self.upper = lower, upper
        # A single class above zero makes every precision equally likely. A second class, as if about
        # to appear, gives such items G = 1, and agreement then counts as for the others.
        self.absent = (mean < TINY).sum(-1).clamp_(max=classes - 2)
        # The total, with weight -1, rides along as one more class.
        self.points = torch.nn.functional.pad(mean, (0, 1), value=1.0).clamp_(min=TINY)
        self.weights = mean.new_ones(classes + 1)
        self.weights[-1] = -1.0
        self.minka = (classes - 1 - self.absent) / (2 * spread)

    def step(self, z: Tensor, h: Callable[[Tensor], Tensor]) -> Tensor:
        """Take a Newton step from ``z`` ``[S]`` with ``h`` in G, and stay inside the bracket."""
        x = z.unsqueeze(-1) * self.points
        q = torch.mv(_special.q_rational(x), self.weights).sub_(self.absent)
        g = torch.mv(h(x), self.weights).sub_(self.absent)
        power = g / q
        return g.div_(z * self.spread).pow_(power).mul_(z).clamp_(self.lower, self.upper)

    def solve(self, tolerance: float) -> Solution:
        # Halfway (in the logarithm) between the two bounds of the root, a rational step is off by less
        # than 1 %, and one exact step from there by less than 3e-5.
        z = self.step((1.414 * self.minka).clamp_(self.lower, self.upper), _special.h_rational)
        iterations = torch.zeros_like(z, dtype=torch.int64)
        converged = torch.zeros_like(z, dtype=torch.bool)
        for _ in range(MAX_ITERATIONS):
            proposal = torch.where(converged, z, self.step(z, _special.h))
            change = (proposal - z).abs_()
            iterations += change > 0
            converged = change <= tolerance * z
            z = proposal
            if bool(converged.all()):
                break
        return Solution(z, iterations, converged)


@torch.no_grad()
def solve(
    mean: Tensor, spread: Tensor, min_precision: float, max_precision: float, tolerance: float
) -> Solution:
    r"""Find the precision in ``[min_precision, max_precision]`` with the highest likelihood.

    Args:
        mean: :math:`\bar a`, ``[..., K]``, float64.
        spread: :math:`D`, ``[...]``, float64; zero when the draws agree, infinite when one of them
            rules out a class that another one allows.
        min_precision: Lower end of the bracket.
        max_precision: Upper end of the bracket.
        tolerance: An item ends with the first step that moves it by less than this fraction. The
            slope is good to half a percent, so a step leaves less than a hundredth of its length.

    Returns:
        The solution, each tensor ``[...]``. An item that holds NaN is reported as not converged.
    """
    shape = spread.shape
    # Rounding in statistics of draws that agree can leave D below zero, where it cannot be.
    items, spreads = mean.reshape(-1, mean.shape[-1]), spread.reshape(-1).clamp(min=0)
    size = max(len(spreads), 1)
    if mean.device.type == "cpu":
        size = max(_BLOCK * torch.get_num_threads() // mean.shape[-1], 1)
    blocks = [
        _Equation(block, block_spread, min_precision, max_precision).solve(tolerance)
        for block, block_spread in zip(items.split(size), spreads.split(size), strict=True)
    ]
    columns = blocks[0] if len(blocks) == 1 else map(torch.cat, zip(*blocks, strict=True))
    return Solution(*(column.reshape(shape) for column in columns))
