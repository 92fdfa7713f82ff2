"""The two ways to the KL, against densities in float64, where differences of lnΓ do no harm."""

import pytest
import torch
from torch.distributions import Dirichlet

from felbo import dirichlet
from felbo.objectives._kl import KLOfDraws, KLOfOneDraw, dtype_for_kl


def draws_of(number, classes, noise, scale=3.0, items=40):
    generator = torch.Generator().manual_seed(classes)
    shared = scale * torch.randn(1, items, classes, generator=generator, dtype=torch.float64)
    own = torch.randn(number, items, classes, generator=generator, dtype=torch.float64)
    return dirichlet.smooth((shared + noise * own).softmax(-1))


def by_densities(draws, beta, cap):
    """Mean over draws and points of ``log Dir(f | α) − log Dir(f | β)``, and α − β."""
    if len(draws) == 1:
        alpha = cap * draws[0]
    else:
        alpha = dirichlet.fit(draws, max_precision=cap).concentration
    posterior, prior = (Dirichlet(c, validate_args=False) for c in (alpha, beta))
    return (posterior.log_prob(draws) - prior.log_prob(draws)).mean(), alpha - beta


def priors(classes):
    generator = torch.Generator().manual_seed(1)
    vague = torch.rand(40, classes, generator=generator, dtype=torch.float64) + 0.1
    return {
        "uniform": torch.ones(classes, dtype=torch.float64),
        "Jeffreys": torch.full((classes,), 0.5, dtype=torch.float64),
        "strong": torch.full((classes,), 600.0, dtype=torch.float64),
        "row": torch.linspace(0.2, 3.0, classes, dtype=torch.float64),
        "points": vague,
        # About as sure of itself as a posterior can be.
        "sure": 5e3 * vague,
    }


@pytest.mark.parametrize("prior", ["uniform", "Jeffreys", "strong", "row", "points", "sure"])
@pytest.mark.parametrize("noise", [1.0, 0.01])
@pytest.mark.parametrize(("number", "classes"), [(1, 10), (2, 2), (10, 10), (5, 1000)])
def test_value_and_slope_in_both_precisions(number, classes, noise, prior):
    draws, beta, cap = draws_of(number, classes, noise), priors(classes)[prior], 6e4
    expected, excess = by_densities(draws, beta, cap)
    kind = KLOfOneDraw if number == 1 else KLOfDraws
    exact, slope = kind(beta, cap, torch.float64)(draws)
    torch.testing.assert_close(exact, expected, rtol=1e-9, atol=1e-6)
    # One draw leaves out α, whose part is zero on the simplex.
    wanted = excess if number > 1 else -beta.expand_as(excess)
    slopes = torch.as_tensor(slope, dtype=torch.float64).expand_as(excess)
    torch.testing.assert_close(slopes, wanted, rtol=1e-5, atol=1e-6)
    value, slope = kind(beta, cap, torch.float32)(draws.float())
    assert value.dtype == torch.float32
    # A relative rounding of every log f and log b counts as often as there are observations.
    rounding = 2e-7 * (cap + float(beta.sum(-1).mean()))
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=rounding)
    if number > 1:
        torch.testing.assert_close(slope.double(), excess, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("prior", ["uniform", "Jeffreys", "strong", "row", "points", "sure"])
@pytest.mark.parametrize("classes", [2, 10])
def test_one_draw_that_is_never_small_takes_a_shorter_way(classes, prior):
    draws, beta, cap = draws_of(1, classes, noise=1.0), priors(classes)[prior], 6e4
    expected, _ = by_densities(draws, beta, cap)
    long, short = (
        KLOfOneDraw(beta, cap, torch.float32, smallest) for smallest in (0.4 / cap, 0.6 / cap)
    )
    assert short.short
    assert not long.short
    assert not KLOfOneDraw(beta, cap, torch.float64, 0.6 / cap).short
    for kl, of_formula in ((long, 8e-7), (short, 1.1e-5)):
        value, _ = kl(draws.float())
        rounding = 2e-7 * float(beta.sum(-1).mean())
        tolerance = classes * of_formula + rounding
        torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=tolerance)


def test_when_float32_is_enough():
    one, several = torch.rand(1, 3, 4), torch.rand(2, 3, 4)

    def chosen(draws, smoothing=1e-4, total=False):
        return dtype_for_kl(draws, smoothing, total=total)

    assert chosen(several) == chosen(several.half()) == torch.float32
    assert chosen(several.double()) == torch.float64
    assert chosen(several, smoothing=0.0) == torch.float64
    assert chosen(several, total=True) == torch.float64
    assert chosen(one, smoothing=0.0) == torch.float64
    with torch.autocast("cpu", torch.bfloat16):
        assert chosen(several) == torch.float64
        assert chosen(one) == torch.float32
    torch.set_float32_matmul_precision("medium")
    try:
        assert chosen(several) == torch.float64
    finally:
        torch.set_float32_matmul_precision("highest")
