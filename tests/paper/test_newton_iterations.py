"""The paper's iteration against the library's fit, and a smoke run."""

import pytest
import torch
from torch.distributions import Dirichlet

import felbo
from felbo.paper import newton_iterations
from felbo.paper.newton_iterations import STEPS, plain_iteration
from felbo.paper.runner import reproduce

RELATIVE = STEPS["plain iteration"]


@pytest.fixture
def draws():
    alpha = torch.tensor([[2.0, 3.0, 5.0], [40.0, 10.0, 5.0], [1.0, 1.0, 7.0]]).double()
    return Dirichlet(alpha).sample((30,))


def test_plain_iteration_finds_the_maximum_of_the_likelihood(draws):
    z, iterations, converged = plain_iteration(draws, RELATIVE)
    fit = felbo.dirichlet.fit(draws, min_precision=0.1)
    assert converged.all()
    assert (iterations >= 2).all()
    torch.testing.assert_close(z, fit.precision, rtol=1e-5, atol=0.0)


def test_one_iteration_is_the_printed_formula(draws):
    a, l = draws.mean(0)[0], draws.log().mean(0)[0]
    start = 2.0 / (-2.0 * (a * (l - a.log())).sum())
    first = start.digamma() - (a * (start * a).digamma()).sum() + (a * l).sum()
    second = torch.polygamma(1, start) - (a**2 * torch.polygamma(1, start * a)).sum()
    expected = 1.0 / (1.0 / start + first / second / start**2)
    z, iterations, converged = plain_iteration(draws, RELATIVE, limit=1)
    assert z[0].item() == pytest.approx(expected.item(), rel=1e-12)
    assert iterations.tolist() == [1, 1, 1]
    assert not converged.any()


def test_draws_that_agree_never_end():
    same = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64).expand(10, 1, 3)
    _, iterations, converged = plain_iteration(same, RELATIVE, limit=50)
    assert iterations.item() == 50
    assert not converged.item()
    assert felbo.dirichlet.fit(same.contiguous()).converged.item()


def test_smoke_run(tmp_path, mnist_root):
    study = newton_iterations.STUDY
    outcome = reproduce(study, preset="smoke", results=tmp_path, runs=tmp_path)
    value = {(s.metric, s.model): s.mean for s in outcome.summaries if s.metric != "items"}
    for model in study.models:
        items = {s.shift: s.mean for s in outcome.summaries if s[1:3] == ("items", model)}
        assert sum(items.values()) == 500
        mean = sum(shift * count for shift, count in items.items()) / 500
        assert value["mean", model] == pytest.approx(mean)
        assert value["maximum", model] == max(items)
    assert value["converged_share", "felbo"] == 100.0
    assert value["mean", "felbo"] < value["mean", "plain iteration"]
    assert outcome.figure.stat().st_size > 10_000
