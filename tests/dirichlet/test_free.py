import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import gammaln

from felbo import dirichlet

SHAPES = [(2, 3), (5, 100), (10, 10), (50, 4)]


def draws_of(draws, classes, items=3, scale=3.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(draws, items, classes, generator=generator, dtype=torch.float64)
    return dirichlet.smooth((scale * logits).softmax(-1))


def likelihood(alpha, mean_log):
    return gammaln(alpha.sum()) - gammaln(alpha).sum() + ((alpha - 1) * mean_log).sum()


@pytest.mark.parametrize(("draws", "classes"), SHAPES)
def test_the_maximum_is_that_of_a_general_optimiser(draws, classes):
    probs = draws_of(draws, classes)
    fitted = dirichlet.fit(probs, mean="free")
    assert bool(fitted.converged.all())
    for item in range(3):
        mean_log = probs[:, item].log().mean(0).numpy()
        start = np.log(dirichlet.fit(probs[:, item], min_precision=0.01).concentration.numpy())
        found = minimize(lambda t, m: -likelihood(np.exp(t), m), start, args=(mean_log,), tol=1e-12)
        ours = likelihood(fitted.concentration[item].numpy(), mean_log)
        assert ours >= -found.fun - 1e-7 * abs(found.fun)


@pytest.mark.parametrize(("draws", "classes"), SHAPES)
def test_the_likelihood_equation_holds(draws, classes):
    probs = draws_of(draws, classes, scale=0.3)
    alpha = dirichlet.fit(probs, mean="free").concentration
    expected = torch.digamma(alpha) - torch.digamma(alpha.sum(-1, keepdim=True))
    torch.testing.assert_close(expected, probs.log().mean(0), rtol=0, atol=1e-8)


def test_many_draws_give_back_the_dirichlet_they_came_from():
    torch.manual_seed(0)
    alpha = torch.tensor([0.7, 2.0, 5.0], dtype=torch.float64)
    probs = torch.distributions.Dirichlet(alpha).sample((200_000,)).clamp(min=1e-12)
    found = dirichlet.fit(probs / probs.sum(-1, keepdim=True), mean="free").concentration
    torch.testing.assert_close(found, alpha, rtol=0.02, atol=0)


def test_the_sampled_divergence_is_the_exact_one_and_never_negative():
    probs = draws_of(5, 20)
    alpha = dirichlet.fit(probs, mean="free").concentration
    for beta in (torch.ones(20, dtype=torch.float64), torch.linspace(0.2, 4, 20).double()):
        sampled = (dirichlet.log_prob(probs, alpha) - dirichlet.log_prob(probs, beta)).mean(0)
        exact = dirichlet.kl_divergence(alpha, beta.expand_as(alpha))
        torch.testing.assert_close(sampled, exact, rtol=1e-8, atol=1e-8)
        assert bool((sampled >= 0).all())


def test_total_and_partial_derivative_are_one():
    beta = torch.linspace(0.5, 3.0, 6, dtype=torch.float64)
    gradients = []
    for differentiable in (True, False):
        probs = draws_of(4, 6).requires_grad_()
        alpha = dirichlet.fit(probs, mean="free", differentiable=differentiable).concentration
        loss = (dirichlet.log_prob(probs, alpha) - dirichlet.log_prob(probs, beta)).mean()
        gradients.append(torch.autograd.grad(loss, probs)[0])
    torch.testing.assert_close(*gradients, rtol=1e-7, atol=1e-9)


def test_derivatives_through_the_fit_are_right_twice():
    logits = torch.randn(3, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def concentration(values):
        return dirichlet.fit(values.softmax(-1), mean="free", differentiable=True).concentration

    logits.requires_grad_()
    assert torch.autograd.gradcheck(concentration, (logits,), eps=1e-6, atol=1e-5)
    assert torch.autograd.gradgradcheck(concentration, (logits,), eps=1e-6, atol=1e-4)


def test_draws_without_a_maximum_are_refused():
    same = torch.tensor([[0.3, 0.7], [0.3, 0.7]], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"All draws of some item agree.*mean='draws'"):
        dirichlet.fit(same, mean="free")
    with pytest.raises(ValueError, match="zero for some class"):
        dirichlet.fit(torch.tensor([[0.0, 1.0], [0.5, 0.5]]), mean="free")
    with pytest.raises(ValueError, match="no bracket"):
        dirichlet.fit(draws_of(3, 3), mean="free", max_precision=100.0)


def test_another_word_for_the_mean_is_refused():
    with pytest.raises(ValueError, match="mean must be 'draws' or 'free', got 'Free'"):
        dirichlet.fit(torch.full((2, 3), 1 / 3), mean="Free")
