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


class Solution(NamedTuple):
    """Precision, number of Newton steps and convergence of every item, each ``[...]``."""

    precision: Tensor
    iterations: Tensor
    converged: Tensor


class _Equation:
    """The likelihood equation of a block: means with total ``[S, K + 1]`` and spread ``[S, 1]``.

    Both float64. ``positive`` says that no mean can be zero.
    """

    def __init__(
        self, points: Tensor, spread: Tensor, lower: float, upper: float, positive: bool
    ) -> None:
        classes = points.shape[1] - 1
        self.points, self.spread = points, spread
        self.lower, self.upper = lower, upper
        self.signs = signs(classes, points)
        # G and Q if h and q were one half everywhere, or one.
        self.half, self.whole = scalar(0.5 * (classes - 1), points), scalar(classes - 1.0, points)
        # Halfway (in the logarithm) between the two bounds of the root.
        self.middle = scalar(MIDDLE * 0.5 * (classes - 1), points) / spread
        if not positive:
            self._drop_absent_classes(points[:, :-1])

    def _drop_absent_classes(self, mean: Tensor) -> None:
        """Take back the one that h and q are for a class of mean zero."""
        # One class alone would make every precision equally likely; it is given a second one, as if
        # about to appear, so that draws which agree on it count as agreeing.
        present = torch.mm(mean.sign(), self.signs[:-1]).clamp_(min=2.0)
        absent = mean.shape[-1] - present
        self.half, self.whole = self.half - absent, self.whole - absent
        self.middle = present.sub_(1.0).div_(self.spread).mul_(MIDDLE * 0.5)
        self.points = self.points.clamp(min=TINY)

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


def with_total(mean: Tensor) -> Tensor:
    """Return means ``[S, K]`` with their sum, one, as one more class ``[S, K + 1]``."""
    return torch.cat((mean, scalar(1.0, mean).expand(mean.shape[0], 1)), 1)


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
    points = with_total(mean.reshape(-1, mean.shape[-1]))
    blocks = [
        _Equation(*block, min_precision, max_precision, positive=False).solve_and_count(tolerance)
        for block in _blocks(points, spread.reshape(-1, 1))
    ]
    columns = blocks[0] if len(blocks) == 1 else map(torch.cat, zip(*blocks, strict=True))
    return Solution(*(column.reshape(spread.shape) for column in columns))


def solve(
    points: Tensor, spread: Tensor, min_precision: float, max_precision: float, tolerance: float
) -> Tensor:
    """Return the precision ``[S, 1]`` that :func:`solve_and_count` finds, without keeping count.

    Args:
        points: the means :func:`with_total`, ``[S, K + 1]``, none zero, as after smoothing; float32
            or float64.
        spread: D ``[S, 1]``, of the same dtype; rounding may have left it below zero.
        min_precision: Lower end of the bracket.
        max_precision: Upper end of the bracket.
        tolerance: As above, for float64.
    """
    if points.dtype == torch.float32:
        blocks = [
            _two_steps(*block, min_precision, max_precision) for block in _blocks(points, spread)
        ]
    else:
        blocks = [
            _Equation(*block, min_precision, max_precision, positive=True).solve(tolerance)
            for block in _blocks(points, spread.clamp(min=0.0))
        ]
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks)


def _two_steps(points: Tensor, spread: Tensor, lower: float, upper: float) -> Tensor:
    """Solve for float32, where it is known beforehand that two steps are enough.

    They are those of :class:`_Equation` in fewer operations, which for small batches take longer to
    call than to run. The first starts from ``z = m / D``, so that ``G / z D = G / m``. It ends
    within 1 % of the root, where the second may follow a straight line in z.
    """
    classes = points.shape[1] - 1
    half, column = 0.5 * (classes - 1), signs(classes, points)
    middle = MIDDLE * half
    # For a D below this, the root lies far beyond the bracket.
    spread = spread.clamp(min=0.5 * middle / upper)

    z = torch.div(scalar(middle, points), spread)
    x, base = z * points, scalar(half / middle, points)
    q = torch.addmm(base, _special.q_fraction(x), column, alpha=0.5 / middle)
    g = torch.addmm(base, _special.h_fraction(x), column, alpha=1.0 / middle)
    power = g / q
    z = g.pow_(power).mul_(z).clamp_(lower, upper)

    x = z * points
    q = torch.addmm(scalar(half, points), _special.q_fraction(x), column, alpha=0.5)
    g = torch.addmm(scalar(2.0 * half, points), _special.h_part(x), column, alpha=-1.0)
    return z.lerp(g / spread, g / q).clamp_(lower, upper)


def _blocks(points: Tensor, spread: Tensor) -> Iterable[tuple[Tensor, Tensor]]:
    """Cut ``[S, K + 1]`` and ``[S, 1]`` into blocks of items that stay in the cache."""
    size = items_per_block(points.shape[1], points.dtype, points)
    if points.shape[0] <= size:
        return [(points, spread)]
    return zip(torch.split(points, size), torch.split(spread, size), strict=True)
