import mpmath
import pytest
import torch

from felbo.dirichlet import _special, log_prob, profile_log_likelihood


@pytest.mark.parametrize("x", [1e-12, 1e-6, 1e-3, 0.1, 0.5, 1.0, 2.0, 7.0, 100.0, 6e4, 1e8])
def test_b_is_what_stirling_leaves(x):
    with mpmath.workdps(40):
        exact = mpmath.mpf(x) * (mpmath.log(x) - 1) - mpmath.loggamma(mpmath.mpf(x))
    assert _special.b(torch.tensor(x, dtype=torch.float64)).item() == pytest.approx(
        float(exact), abs=1e-10
    )
    single = torch.tensor(x, dtype=torch.float32)
    with mpmath.workdps(40):
        given = mpmath.mpf(single.item())
        exact = given * (mpmath.log(given) - 1) - mpmath.loggamma(given)
    assert _special.b(single).item() == pytest.approx(float(exact), abs=3e-6)


def draws(dtype):
    generator = torch.Generator().manual_seed(0)
    return (
        (2 * torch.randn(6, 9, 5, generator=generator, dtype=torch.float64)).softmax(-1).to(dtype)
    )


def test_profile_is_the_mean_log_density_without_its_flat_part():
    probs = draws(torch.float64)
    mean, mean_log = probs.mean(0), probs.log().mean(0)
    precision = torch.logspace(0, 5, 9, dtype=torch.float64)
    density = log_prob(probs, precision.unsqueeze(-1) * mean).mean(0)
    torch.testing.assert_close(
        profile_log_likelihood(mean, mean_log, precision),
        density + mean_log.sum(-1),
        rtol=1e-10,
        atol=1e-8,
    )


def test_profile_of_one_draw_is_exact_in_float32_where_the_definition_is_off_by_nats():
    mean = draws(torch.float32)[0]
    precision = torch.full((9,), 60_000.0)
    found = profile_log_likelihood(mean, mean.log(), precision)
    wide = mean.double()
    exact = profile_log_likelihood(wide, wide.log(), precision.double())
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=2e-5)


def test_gradient_matches_finite_differences():
    probs = draws(torch.float64)
    inputs = [probs.mean(0), probs.log().mean(0), torch.linspace(3, 50, 9, dtype=torch.float64)]
    assert torch.autograd.gradcheck(
        profile_log_likelihood, [part.requires_grad_() for part in inputs]
    )
