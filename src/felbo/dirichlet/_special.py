r"""The two functions of one variable that the precision of a Dirichlet is made of.

.. math::
    h(x) = x (\log x - \psi(x)), \qquad q(x) = x^2 \psi'(x) - x

Both fall monotonically from 1 at zero to 1/2 at infinity, and :math:`x h'(x) = h(x) - q(x)`. Written with
them, the likelihood equation of the precision has no difference of large numbers left in it.
"""

from __future__ import annotations

import torch
from torch import Tensor

_SHIFT = 8
# B_2j / 2j for psi and B_2j for psi', j = 1..7 (Abramowitz and Stegun 6.3.18 and 6.4.12).
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _horner(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    result = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result.mul_(x).add_(coefficient)
    return result


def h_and_q(x: Tensor) -> tuple[Tensor, Tensor]:
    r"""Evaluate :math:`h(x) = x(\log x - \psi(x))` and :math:`q(x) = x^2 \psi'(x) - x` together.

    Args:
        x: Positive float64 values, any shape.

    Returns:
        ``h`` and ``q``, shaped like ``x``.
    """
    y = x + _SHIFT
    inverse = y.reciprocal()
    square = inverse * inverse
    # log y - psi(y) and psi'(y) - 1/y by the asymptotic series, then down to x by the recurrence. The
    # i = 0 terms are exactly one after the scaling by x; they stay out of the sums so that nothing overflows.
    phi = _horner(_DIGAMMA, square).mul_(square).add_(inverse, alpha=0.5)
    trigamma = _horner(_TRIGAMMA, square).mul_(inverse).add_(0.5).mul_(square)
    # psi'(y) - 1/y + sum 1/(x+i)^2 - (1/x - 1/y), with 1/x - 1/y = sum 1/((x+i)(x+i+1)) telescoped.
    previous = x.add(1).reciprocal_()
    for i in range(1, _SHIFT):
        following = x.add(i + 1).reciprocal_()
        phi.add_(previous)
        trigamma.addcmul_(previous, previous - following)
        previous = following
    h = phi.sub_(torch.log1p(_SHIFT / x)).mul_(x).add_(1)
    # The i = 0 term: x^2 (1/x^2 - 1/(x(x+1))) = 1/(x+1).
    q = trigamma.mul_(x).mul_(x).add_(x.add(1).reciprocal_())
    return h, q
