"""The two fixed Newton steps against the solver that iterates, and h against mpmath."""

import mpmath
import pytest
import torch

from felbo import dirichlet
from felbo.dirichlet.precision import solve
from felbo.fused.draws import blocks, divergence
from felbo.fused.precision import h, precision

POINTS = [10.0**e * c for e in range(-12, 10) for c in (1.0, 2.2, 4.7)]


def test_error_of_h_is_as_documented():
    values = h(torch.tensor(POINTS, dtype=torch.float64)).tolist()
    with mpmath.workdps(40):
        for x, value in zip(POINTS, values, strict=True):
            exact = mpmath.mpf(x) * (mpmath.log(x) - mpmath.digamma(x)) - 0.5
            # For large x the logarithm of 1 + 1/x is rounded.
            assert value == pytest.approx(float(exact), abs=1e-7), x


@pytest.mark.parametrize("classes", [2, 3, 10, 300])
@pytest.mark.parametrize("concentration", [0.01, 0.1, 1.0, 100.0])
def test_precision_is_the_maximiser(classes, concentration):
    torch.manual_seed(classes)
    items = 20_000 // classes
    draws = torch.distributions.Dirichlet(torch.full((classes,), concentration).double())
    spread = classes * 10 ** (14 * torch.rand(items, dtype=torch.float64) - 10)
    spread[0] = 0.0
    for smoothing in (1e-2, 1e-6):
        mean = (1 - smoothing) * draws.sample((items,)) + smoothing / classes
        for upper in (1.0001 * classes, 1e2 * classes, 1e9):
            bracket = float(classes), upper
            exact = solve(mean, spread, *bracket, tolerance=1e-9).precision
            for axis, values in ((-1, mean), (-2, mean.T.contiguous())):
                found = precision(values, spread, *bracket, axis=axis)
                assert ((found / exact - 1).abs() < 3e-5).all()
                assert found[0] == upper


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("draws", [2, 3, 10])
def test_fit_of_draws_that_nearly_agree(classes, draws):
    torch.manual_seed(classes)
    apart = 10 ** torch.linspace(-6, -3, 1000)[:, None]
    logits = 3 * torch.randn(1, 1000, classes) + apart * torch.randn(draws, 1000, classes)
    (block,) = blocks(logits, torch.ones(classes).double())
    found = divergence(block, 1e9, 1e-4).alpha.sum(block.axis)
    f = dirichlet.smooth(logits.double().softmax(-1))
    exact = dirichlet.fit(f, max_precision=1e9).precision
    inside = (exact > 1e8) & (exact < 1e9)
    assert inside.sum() > 50
    assert ((found / exact - 1).abs() < 3e-5).all()
    # Draws of float32 are other draws.
    rounded = dirichlet.fit(f.float(), max_precision=1e9).precision.double()
    assert ((rounded / exact - 1).abs() < 1e-7 * exact.sqrt() + 1e-4).all()
    assert ((rounded / exact - 1).abs() > 3e-5)[inside].any()
