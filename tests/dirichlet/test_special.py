"""The functions h and q against arbitrary precision arithmetic."""

import mpmath
import pytest
import torch

from felbo.dirichlet import _special

POINTS = [10.0**e * c for e in range(-30, 16) for c in (1.0, 2.2, 4.7)] + [1e-300, 1e-100]


def exact_h(x: float) -> float:
    with mpmath.workdps(400 if x < 1e-50 else 70):
        point = mpmath.mpf(x)
        return float(point * (mpmath.log(point) - mpmath.digamma(point)))


def exact_q(x: float) -> float:
    with mpmath.workdps(400 if x < 1e-50 else 70):
        point = mpmath.mpf(x)
        return float(point**2 * mpmath.psi(1, point) - point)


@pytest.mark.parametrize(
    ("function", "exact", "tolerance"),
    [
        (_special.h, exact_h, 1e-8),
        (_special.q, exact_q, 1e-14),
        (lambda x: 0.5 + _special.h_fraction(x), exact_h, 3.3e-3),
        (lambda x: 0.5 + 0.5 * _special.q_fraction(x), exact_q, 4.1e-3),
    ],
)
def test_relative_error_is_as_documented(function, exact, tolerance):
    values = function(torch.tensor(POINTS, dtype=torch.float64)).tolist()
    for point, value in zip(POINTS, values, strict=True):
        assert value == pytest.approx(exact(point), rel=tolerance, abs=0), point


def test_arguments_are_left_untouched():
    x = torch.linspace(0.1, 20, 50, dtype=torch.float64)
    for function in (_special.h, _special.q, _special.h_fraction, _special.q_fraction):
        function(x)
    assert torch.equal(x, torch.linspace(0.1, 20, 50, dtype=torch.float64))
