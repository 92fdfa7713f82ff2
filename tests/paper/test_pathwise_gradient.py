"""The three gradient estimates against the exact gradient, and a smoke run."""

import pytest
import torch
from torch.distributions import Dirichlet, kl_divergence

import felbo
from felbo.paper import pathwise_gradient
from felbo.paper.pathwise_gradient import estimate, log10_divergence, make_target
from felbo.paper.runner import reproduce


def gradients(name, alpha, beta, repeats):
    log_alpha = alpha.log().requires_grad_()
    found = []
    for _ in range(repeats):
        (gradient,) = torch.autograd.grad(estimate(name, log_alpha.exp(), beta), log_alpha)
        found.append(gradient)
    return torch.stack(found)


@pytest.mark.parametrize("name", ["total", "pathwise"])
def test_both_derivatives_are_unbiased(name):
    beta = torch.tensor([1.5, 4.0, 2.5], dtype=torch.float64)
    alpha = torch.tensor([2.0, 2.0, 3.0], dtype=torch.float64)
    log_alpha = alpha.log().requires_grad_()
    exact = felbo.dirichlet.kl_divergence(log_alpha.exp(), beta)
    (expected,) = torch.autograd.grad(exact, log_alpha)
    found = gradients(name, alpha, beta, repeats=1500)
    error = found.std(0) / len(found) ** 0.5
    assert ((found.mean(0) - expected).abs() < 4.0 * error).all()


def test_only_the_pathwise_derivative_vanishes_at_the_target():
    beta = make_target(0)
    assert gradients("pathwise", beta, beta, 3).abs().max() < 1e-8
    assert gradients("total", beta, beta, 3).abs().mean() > 0.1
    assert gradients("pathwise, fitted", beta, beta, 3).abs().mean() > 0.01


def test_target_is_uniform_between_one_and_ten_and_differs_between_seeds():
    targets = torch.stack([make_target(seed) for seed in range(50)])
    assert targets.min() > 1.0
    assert targets.max() < 10.0
    assert targets.mean().item() == pytest.approx(5.5, abs=5 * 9 / (12 * 5000) ** 0.5)
    assert not torch.equal(targets[0], targets[1])


def test_divergence_is_the_closed_form():
    alpha, beta = make_target(1), make_target(2)
    expected = kl_divergence(Dirichlet(alpha), Dirichlet(beta)).log10().item()
    assert log10_divergence(alpha, beta) == pytest.approx(expected)
    assert log10_divergence(alpha, alpha) == -12.0


def test_smoke_run(tmp_path):
    study = pathwise_gradient.STUDY
    outcome = reproduce(study, preset="smoke", results=tmp_path, runs=tmp_path)
    curves = {model: [s for s in outcome.summaries if s.model == model] for model in study.models}
    assert {len(curve) for curve in curves.values()} == {11}
    starts = {curve[0].mean for curve in curves.values()}
    assert len(starts) == 1
    assert all(curve[-1].mean < curve[0].mean - 0.3 for curve in curves.values())
    assert outcome.figure.stat().st_size > 10_000
