"""The functions h and q against arbitrary precision arithmetic."""

import mpmath
import pytest
import torch

from felbo.dirichlet.special import h, h_rational, q_rational

POINTS = [10.0**e * c for e in range(-30, 16) for c in (1.0, 2.2, 4.7)] + [1e-300, 1e-100]


def exact_h(x):
    return x * (mpmath.log(x) - mpmath.digamma(x))


def exact_q(x):
    return x**2 * mpmath.psi(1, x) - x


@pytest.mark.parametrize(
    ("function", "exact", "tolerance"),
    [
        (lambda x: 0.5 + h(x), exact_h, 1e-8),
        (lambda x: 0.5 + h_rational(x), exact_h, 3.3e-3),
        (lambda x: 0.5 + 0.5 * q_rational(x), exact_q, 4.1e-3),
    ],
)
def test_relative_error_is_as_documented(function, exact, tolerance):
    x = torch.tensor(POINTS, dtype=torch.float64)
    values = function(x).tolist()
    assert x.tolist() == POINTS, "the argument was changed"
    for point, value in zip(POINTS, values, strict=True):
        with mpmath.workdps(400 if point < 1e-50 else 70):
            expected = float(exact(mpmath.mpf(point)))
        assert value == pytest.approx(expected, rel=tolerance, abs=0), point
