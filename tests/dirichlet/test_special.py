"""The functions h, q and μ against arbitrary precision arithmetic."""

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


def exact_stirling(x: float) -> float:
    with mpmath.workdps(400 if x < 1e-50 else 70):
        point = mpmath.mpf(x)
        rest = (point - 0.5) * mpmath.log(point) - point + mpmath.log(2 * mpmath.pi) / 2
        return float(mpmath.loggamma(point) - rest)


@pytest.mark.parametrize(
    ("function", "exact", "tolerance"),
    [
        (lambda x: 1.0 - _special._h_part_short(x), exact_h, 1.7e-6),
        (lambda x: _special._stirling_part_short(x) - 1.0, exact_stirling, 7.3e-7),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_absolute_error_of_the_short_forms_is_as_documented(function, exact, tolerance, dtype):
    points = torch.tensor([x for x in POINTS if 1e-30 <= x <= 1e8], dtype=dtype)
    # In float32 x itself is rounded, and what goes like log x is large at zero.
    rounding = 8 * torch.finfo(dtype).eps
    for point, value in zip(points.tolist(), function(points).tolist(), strict=True):
        expected = exact(point)
        assert value == pytest.approx(expected, rel=rounding, abs=tolerance + rounding), point


@pytest.mark.parametrize("scale", [1.0, 6e4])
def test_absolute_error_of_the_quotient_is_as_documented(scale):
    points = torch.tensor([0.5, 0.6, 0.8, *(x for x in POINTS if x >= 1.0)], dtype=torch.float64)
    numerator, denominator = _special.stirling_quotient(points / scale, scale, divisor=0.5)
    for point, value in zip(points.tolist(), (numerator / denominator).tolist(), strict=True):
        assert 0.5 * value == pytest.approx(exact_stirling(point), rel=0, abs=1.09e-5), point


def test_stirling_part_in_float64():
    points = torch.tensor([x for x in POINTS if 1e-30 <= x <= 1e4], dtype=torch.float64)
    values = (_special.stirling_part(points) - 1.0).tolist()
    for point, value in zip(points.tolist(), values, strict=True):
        assert value == pytest.approx(exact_stirling(point), rel=1e-13, abs=1e-10), point


def test_float32_takes_the_short_forms():
    x = torch.tensor([0.3, 2.0, 70.0])
    assert torch.equal(_special.h_part(x), _special._h_part_short(x))
    assert torch.equal(_special.stirling_part(x), _special._stirling_part_short(x))


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
    functions = (_special.h, _special.q, _special.h_fraction, _special.q_fraction)
    short = (_special._h_part_short, _special._stirling_part_short)
    for function in (*functions, *short, _special.stirling_part):
        function(x)
    _special.stirling_quotient(x, 1.0, 1.0)
    assert torch.equal(x, torch.linspace(0.1, 20, 50, dtype=torch.float64))
