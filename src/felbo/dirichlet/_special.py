r"""The functions of one variable that the fit of a Dirichlet and its divergence are made of.

.. math::
    h(x) = x (\log x - \psi(x)), \qquad q(x) = x^2 \psi'(x) - x, \qquad
    \mu(x) = \ln\Gamma(x) - (x - \tfrac12) \log x + x - \tfrac12 \log 2\pi

The first two fall monotonically from 1 at zero to 1/2 at infinity, and
:math:`x h'(x) = h(x) - q(x)`; the third is what Stirling's formula leaves out, and vanishes at
infinity. Written with them, likelihood equation and divergence have no difference of large numbers.

h and q come to high accuracy, and as a cheap rational function for starts and slopes. In float32, h
and :math:`\mu` are shorter still. All take positive tensors of any shape; the errors stated are
those of the formulas, without rounding. ``torch.digamma`` and ``torch.lgamma`` cost as much as
twenty logarithms; these are short runs of operations. What is summed over classes can as well be
summed without additive constants and signs, so :func:`h_part`, :func:`h_fraction`,
:func:`q_fraction` and :func:`stirling_part` leave them to the caller.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor

from felbo._constants import scalar

# B_2j / 2j and B_2j, the coefficients of the asymptotic series of psi and psi' (Abramowitz and
# Stegun 6.3.18 and 6.4.12).
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)

# From where on stirling_quotient holds.
STIRLING_QUOTIENT_FROM = 0.5


def h(x: Tensor) -> Tensor:
    r"""Evaluate :math:`h(x) = x (\log x - \psi(x))` to a relative error of 1e-8."""
    return h_part(x).neg_().add_(1.0)


def h_part(x: Tensor) -> Tensor:
    r"""Evaluate :math:`1 - h(x)`, which is :math:`x (\psi(x) + 1/x - \log x)`.

    In float32 the error is 2e-6, see :func:`_h_part_short`. Otherwise
    three terms of the asymptotic series at :math:`y = x + 5` are enough for a precision that is
    wanted to 1e-6. The recurrence of :math:`\psi` brings them down to x. Its four inner terms
    :math:`1 / (x + i)` pair up around :math:`s = x y + 5`: their sum is
    :math:`2 s (x + y) / (s^2 - 1)`. The term of :math:`i = 0` is the one that is left out, and
    ``log1p`` keeps :math:`\log(y / x)` exact for large x.
    """
    if x.dtype == torch.float32:
        return _h_part_short(x)
    five = scalar(5.0, x)
    y = x + five
    s = torch.addcmul(five, x, y)
    numerator = (x + y).mul_(s)
    result = torch.div(five, x).log1p_()
    result.addcdiv_(numerator, torch.addcmul(scalar(-1.0, x), s, s), value=-2.0)
    inverse = y.reciprocal_()
    square = inverse * inverse
    first, second, third = _DIGAMMA
    series = torch.add(scalar(second, x), square, alpha=third)
    series = torch.addcmul(scalar(first, x), square, series)
    return result.sub_(inverse, alpha=0.5).addcmul_(square, series, value=-1.0).mul_(x)


def _h_part_short(x: Tensor) -> Tensor:
    r"""Evaluate :math:`1 - h(x)` to 2e-6.

    One step of the recurrence leads to :math:`\psi(x + 1) - \log(x + 1)`. A polynomial in
    :math:`1 / (x + c)` stands in for it, with all four numbers chosen to minimise the largest error
    (by reweighted least squares).
    """
    result = x.reciprocal().log1p_()
    inverse = (x + scalar(1.1675, x)).reciprocal_()
    series = torch.add(scalar(0.16713282, x), inverse, alpha=0.041828421)
    series = torch.addcmul(scalar(0.49999872, x), inverse, series)
    return result.addcmul_(inverse, series, value=-1.0).mul_(x)


def stirling_part(x: Tensor) -> Tensor:
    r"""Evaluate :math:`\mu(x) + 1`: in float32 to 8e-7, in float64 differentiable and exact."""
    if x.dtype == torch.float32:
        return _stirling_part_short(x)
    return torch.lgamma(x) + x - (x - 0.5) * x.log() + (1.0 - 0.5 * math.log(2.0 * math.pi))


def _stirling_part_short(x: Tensor) -> Tensor:
    r"""Evaluate :math:`\mu(x) + 1` to 8e-7.

    The recurrence of :math:`\Gamma` gives
    :math:`\mu(x) + 1 = \mu(x + 1) + (x + \tfrac12) \log(1 + 1/x)`, and the rest goes as in
    :func:`_h_part_short`.
    """
    result = x.reciprocal().log1p_().mul_(x + scalar(0.5, x))
    inverse = (x + scalar(1.203, x)).reciprocal_()
    series = torch.add(scalar(0.083319718, x), inverse, alpha=0.017078215)
    return result.addcmul_(inverse, series)


def stirling_quotient(x: Tensor, scale: float, divisor: float) -> tuple[Tensor, Tensor]:
    r"""Evaluate :math:`\mu(y) / d` for :math:`y = s x`, as a numerator and a denominator.

    For :math:`y \ge \tfrac12` it is off by 1.1e-5 at most. It is written like the start of
    Stieltjes' continued fraction, :math:`a / (y + b / (y + c))`, with numbers that minimise the
    largest error (by reweighted least squares). The scale s costs nothing, nor does d, and the
    caller can add the quotient to something while dividing.
    """
    inner = x + scalar(0.49519620 / scale, x)
    denominator = torch.addcdiv(x, scalar(0.043457707 / scale**2, x), inner)
    return scalar(0.083407067 / (scale * divisor), x), denominator


def q(x: Tensor) -> Tensor:
    r"""Evaluate :math:`q(x) = x^2 \psi'(x) - x` to a relative error of 1e-14.

    The :math:`-x` is shared out over the recurrence of :math:`\psi'` by
    :math:`1/x - 1/y = \sum_i 1 / ((x + i)(x + i + 1))`, so that nothing cancels for large x.
    """
    reciprocals = [(x + float(i)).reciprocal_() for i in range(1, 9)]
    inverse = reciprocals[-1]
    square = inverse * inverse
    series = square * _TRIGAMMA[-1]
    for coefficient in reversed(_TRIGAMMA[1:-1]):
        series.add_(coefficient).mul_(square)
    result = series.add_(_TRIGAMMA[0]).mul_(inverse).add_(0.5).mul_(square)
    for this, following in pairwise(reciprocals):
        result.addcmul_(this, this - following)
    return result.mul_(x).mul_(x).add_(reciprocals[0])


def h_fraction(x: Tensor) -> Tensor:
    """Approximate ``h(x) − 1/2``, so that h is off by 0.33 % at most over all positive x.

    The three coefficients minimise the largest relative error, by reweighted least squares.
    """
    denominator = torch.add(scalar(209.96066, x), x, alpha=1034.2435)
    denominator = torch.addcmul(scalar(1.0, x), x, denominator)
    return torch.add(scalar(0.5, x), x, alpha=96.438551).div_(denominator)


def q_fraction(x: Tensor) -> Tensor:
    r"""Approximate ``2 q(x) − 1`` by :math:`(1 + x) / (1 + 3x + 3x^2)`; q is off by 0.41 % at most.

    The fraction has the first two terms of the expansions at zero and at infinity.
    """
    one = scalar(1.0, x)
    numerator = x + one
    return numerator.div_(torch.addcmul(one, x, numerator, value=3.0))
