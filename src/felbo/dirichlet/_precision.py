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

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from felbo._constants import scalar
from felbo.dirichlet import _special
from felbo.dirichlet._statistics import TINY, items_per_block

MAX_ITERATIONS = 8
# Between Minka's start and twice that; the digits are part of the recorded results.
MIDDLE = 1.414
# Largest relative error of a start from there.
START_ERROR = 0.01


class Solution(NamedTuple):
    """Precision, number of Newton steps and convergence of every item, each ``[...]``."""

    precision: Tensor
    iterations: Tensor
    converged: Tensor


class _Equation:
    """The likelihood equation of a block: mean ``[S, K]`` and spread ``[S, 1]``.

    Both float64, or both float32 where no mean can be zero (``positive``).
    """

    def __init__(
        self, mean: Tensor, spread: Tensor, lower: float, upper: float, positive: bool
    ) -> None:
        classes = mean.shape[-1]
        self.spread = spread
        self.lower, self.upper = lower, upper
        # The total rides along as one more class, of weight -1.
        total = scalar(1.0, mean).expand(len(mean), 1)
        self.points = torch.cat((mean, total), 1)
        self.signs = signs(classes, mean)
        # G and Q if h and q were one half everywhere, or one.
        self.half, self.whole = scalar(0.5 * (classes - 1), mean), scalar(classes - 1.0, mean)
        # Halfway (in the logarithm) between the two bounds of the root.
        self.middle = scalar(MIDDLE * 0.5 * (classes - 1), mean) / spread
        if not positive:
            self._drop_absent_classes(mean)

    def _drop_absent_classes(self, mean: Tensor) -> None:
        """Take back the one that h and q are for a class of mean zero."""
        # One class alone would make every precision equally likely; it is given a second one, as if
        # about to appear, so that draws which agree on it count as agreeing.
        present = torch.mm(mean.sign(), self.signs[:-1]).clamp_(min=2.0)
        absent = mean.shape[-1] - present
        self.half, self.whole = self.half - absent, self.whole - absent
        self.middle = present.sub_(1.0).div_(self.spread).mul_(MIDDLE * 0.5)
        self.points.clamp_(min=TINY)

    def step(self, z: Tensor, *, exact: bool) -> Tensor:
        """Take a Newton step from ``z`` ``[S, 1]`` and stay inside the bracket.

        The slope is rational always; G is too unless it should be ``exact``.
        """
        x = z * self.points
        q = torch.addmm(self.half, _special.q_fraction(x), self.signs, alpha=0.5)
        if exact:
            g = torch.addmm(self.whole, _special.h_part(x), self.signs, alpha=-1.0)
        else:
            g = torch.addmm(self.half, _special.h_fraction(x), self.signs)
        power = g / q
        return g.div_(z * self.spread).pow_(power).mul_(z).clamp_(self.lower, self.upper)

    def start(self) -> Tensor:
        """Return z ``[S, 1]`` within 1 % of the root, or at the end of the bracket nearest to it.

        From the middle of its bounds, a rational step does that.
        """
        return self.step(self.middle.clamp_(self.lower, self.upper), exact=False)

    def solve(self, tolerance: float) -> Tensor:
        """Return z ``[S, 1]``."""
        z = self.start()
        # One exact step from there is off by less than 3e-5.
        proposal = self.step(z, exact=True)
        if tolerance >= START_ERROR:
            return proposal
        low, high = torch.aminmax(proposal / z)
        if float(low) >= 1.0 - tolerance and float(high) <= 1.0 + tolerance:
            return proposal
        return self._refine(z, proposal, tolerance).precision

    def solve_and_count(self, tolerance: float) -> Solution:
        """Return z, and how every item came to it, each ``[S, 1]``."""
        z = self.start()
        return self._refine(z, self.step(z, exact=True), tolerance)

    def _refine(self, z: Tensor, proposal: Tensor, tolerance: float) -> Solution:
        change = (proposal - z).abs_()
        iterations = change.sign().long()
        converged = change <= tolerance * z
        for _ in range(1, MAX_ITERATIONS):
            z = proposal
            if bool(converged.all()):
                break
            proposal = torch.where(converged, z, self.step(z, exact=True))
            change = (proposal - z).abs_()
            iterations += change > 0
            converged = change <= tolerance * z
        return Solution(proposal, iterations, converged)


def signs(classes: int, like: Tensor) -> Tensor:
    """Return a column ``[K + 1, 1]`` that sums over classes and takes off the total, shared."""
    return _signs(classes, like.dtype, like.device)


@lru_cache(maxsize=64)
def _signs(classes: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        column = torch.ones(classes + 1, 1, dtype=dtype, device=device)
        column[-1] = -1.0
        return column


def solve_and_count(
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
    blocks = [
        _Equation(*block, min_precision, max_precision, positive=False).solve_and_count(tolerance)
        for block in _blocks(mean.reshape(-1, mean.shape[-1]), spread.reshape(-1, 1))
    ]
    columns = blocks[0] if len(blocks) == 1 else map(torch.cat, zip(*blocks, strict=True))
    return Solution(*(column.reshape(spread.shape) for column in columns))


def solve(
    mean: Tensor, spread: Tensor, min_precision: float, max_precision: float, tolerance: float
) -> Tensor:
    """Return the precision ``[S, 1]`` that :func:`solve_and_count` finds, without keeping count.

    Args:
        mean: ``[S, K]``, none zero, as after smoothing; float32 or float64.
        spread: ``[S, 1]``, of the same dtype.
        min_precision: Lower end of the bracket.
        max_precision: Upper end of the bracket.
        tolerance: As above.
    """
    blocks = [
        _Equation(*block, min_precision, max_precision, positive=True).solve(tolerance)
        for block in _blocks(mean, spread)
    ]
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks)


def _blocks(mean: Tensor, spread: Tensor) -> Iterable[tuple[Tensor, Tensor]]:
    """Cut mean ``[S, K]`` and spread ``[S, 1]`` into blocks of items that stay in the cache."""
    size = items_per_block(mean.shape[-1], mean.dtype, mean)
    if len(mean) <= size:
        return [(mean, spread)]
    return zip(torch.split(mean, size), torch.split(spread, size), strict=True)
