import mpmath
import pytest
import torch

from felbo.fused.stirling import stirling_remainder

POINTS = [10.0**e * c for e in range(-30, 12) for c in (1.0, 2.2, 4.7)]


def exact(x):
    with mpmath.workdps(70):
        x = mpmath.mpf(x)
        rest = (x - 0.5) * mpmath.log(x) - x + mpmath.log(2 * mpmath.pi) / 2
        return float(mpmath.loggamma(x) - rest)


def test_error_is_as_documented():
    values = stirling_remainder(torch.tensor(POINTS, dtype=torch.float64)).tolist()
    for x, value in zip(POINTS, values, strict=True):
        assert value == pytest.approx(exact(x), rel=1e-14, abs=3e-8), x
