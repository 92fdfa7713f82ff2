"""Total and partial derivative against finite differences, and a smoke run."""

import pytest
import torch

import felbo
from felbo.paper import particle_gradient
from felbo.paper.particle_gradient import MAX_PRECISION, make_objective, measure
from felbo.paper.pathwise_gradient import make_target
from felbo.paper.runner import reproduce


def points(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(5, 100, generator=generator, dtype=torch.float64)


def slope(name, logits, direction, beta):
    free = logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(make_objective(name, beta)(free), free)
    return (gradient * direction).sum().item()


@pytest.mark.parametrize("name", ["total", "total, closed form", "full fit"])
def test_total_derivative_is_that_of_the_value(name):
    beta, logits, direction = make_target(0), points(0), points(1)
    h = 1e-4
    ahead, behind = (make_objective(name, beta)(logits + s * h * direction) for s in (1, -1))
    expected = (ahead - behind).item() / (2 * h)
    # The fit is good to 1e-6, so the difference of two values over 2e-4 is to a few per mille.
    assert slope(name, logits, direction, beta) == pytest.approx(expected, rel=2e-3)


def test_partial_derivative_holds_the_concentration():
    beta, logits, direction = make_target(0), points(0), points(1)
    alpha = felbo.dirichlet.fit(logits.softmax(-1), max_precision=MAX_PRECISION).concentration
    free = logits.clone().requires_grad_()
    f = free.softmax(-1)
    value = felbo.dirichlet.log_prob(f, alpha) - felbo.dirichlet.log_prob(f, beta)
    (gradient,) = torch.autograd.grad(value.mean(), free)
    expected = (gradient * direction).sum().item()
    assert slope("partial", logits, direction, beta) == pytest.approx(expected, rel=1e-5)
    assert slope("total", logits, direction, beta) != pytest.approx(expected, rel=0.1)


def test_measures_at_the_target_are_zero():
    # Points whose fit is the target by construction: take the target from the fit.
    logits = points(0)
    alpha = felbo.dirichlet.fit(logits.softmax(-1), max_precision=MAX_PRECISION).concentration
    divergence, estimate, seconds = measure("partial", 7, 1.5, logits, alpha)
    assert divergence.value < -8.0
    assert estimate.value == pytest.approx(0.0, abs=1e-3)
    assert seconds == ("seconds", 7.0, 1.5)


def test_smoke_run(tmp_path):
    study = particle_gradient.STUDY
    outcome = reproduce(study, preset="smoke", results=tmp_path, runs=tmp_path)
    for model in study.models:
        curve = [s for s in outcome.summaries if s.model == model and s.metric == "log10_kl"]
        clock = [s.mean for s in outcome.summaries if s.model == model and s.metric == "seconds"]
        assert len(curve) == len(clock) == 11
        assert curve[-1].mean < curve[0].mean - 0.3
        assert clock[0] == 0.0
        assert clock == sorted(clock)
    assert outcome.figure.stat().st_size > 10_000
