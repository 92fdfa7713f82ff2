"""Belief Matching against torch.distributions, its known optimum and finite differences."""

import pytest
import torch
from torch import nn
from torch.distributions import Dirichlet, kl_divergence

import felbo
from felbo.models import MAP, ConcentrationNetwork
from felbo.objectives import BeliefMatching
from felbo.priors import DirichletPrior, UniformPrior

LABELS = torch.tensor([0, 2, 1, 2])


@pytest.fixture
def logits():
    generator = torch.Generator().manual_seed(3)
    return 2 * torch.randn(4, 3, generator=generator, dtype=torch.float64)


def outputs_as_they_come():
    return ConcentrationNetwork(nn.Identity())


class Free(nn.Module):
    """Outputs that are parameters, whatever the input."""

    def __init__(self, classes):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(1, classes, dtype=torch.float64))

    def forward(self, x):
        return self.logits.expand(len(x), -1)


def test_terms_are_those_of_torch_distributions(logits):
    beta = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
    loss = BeliefMatching(DirichletPrior(beta), kl_weight=0.3)(
        outputs_as_they_come(), logits, LABELS
    )
    posterior = Dirichlet(logits.exp())
    kl = kl_divergence(posterior, Dirichlet(beta.expand(4, 3))).mean()
    torch.testing.assert_close(loss.kl, kl)
    torch.testing.assert_close(loss.total, loss.nll + 0.3 * loss.kl)
    draws = posterior.sample((200_000,)).log()
    sampled = -draws.mean(0)[torch.arange(4), LABELS].mean()
    torch.testing.assert_close(loss.nll, sampled, rtol=2e-2, atol=0)


def test_a_prior_that_depends_on_the_input(logits):
    beta = logits.exp()
    loss = BeliefMatching(lambda x: Dirichlet(x.exp()))(outputs_as_they_come(), logits, LABELS)
    assert abs(loss.kl.item()) < 1e-10
    z, picked = beta.sum(-1), beta[torch.arange(4), LABELS]
    torch.testing.assert_close(loss.nll, (torch.digamma(z) - torch.digamma(picked)).mean())


@pytest.mark.parametrize("weight", [1.0, 0.1])
def test_the_optimum_for_one_label_is_the_prior_plus_counts(weight):
    """E_q[log f_y] − w KL(q ‖ p) is largest at q ∝ p f_y^(1/w), which is Dir(β + e_y / w)."""
    beta = [1.0, 2.0, 0.5]
    network = Free(3)
    model = ConcentrationNetwork(network)
    objective = BeliefMatching(DirichletPrior(beta), kl_weight=weight)
    x, y = torch.zeros(1, 1), torch.tensor([1])
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-14
    )

    def closure():
        optimizer.zero_grad()
        total = objective(model, x, y).total
        total.backward()
        return total

    for _ in range(5):
        optimizer.step(closure)
    expected = torch.tensor([beta], dtype=torch.float64)
    expected[0, 1] += 1 / weight
    torch.testing.assert_close(model.concentration(x).detach(), expected, rtol=1e-4, atol=0)


def test_float32_outputs_lose_nothing_at_high_precision():
    logits = torch.tensor([[14.0, 13.0, 12.0]])
    double = logits.double()
    objective = BeliefMatching(UniformPrior(3))
    single = objective(outputs_as_they_come(), logits, torch.tensor([0]))
    exact = objective(outputs_as_they_come(), double, torch.tensor([0]))
    torch.testing.assert_close(single.kl, exact.kl, rtol=1e-5, atol=0)


def test_the_loop_finds_the_optimum():
    """Two inputs, one label each: α = (1, 101), a label counting for 1 / 0.01 observations."""
    x = torch.tensor([[-1.0], [1.0]])
    model = ConcentrationNetwork(felbo.networks.mlp(1, (8,), 2))
    objective = BeliefMatching(UniformPrior(2), kl_weight=0.01)
    felbo.fit(
        model, objective, (x, torch.tensor([0, 1])), epochs=300, learning_rate=0.1, progress=False
    )
    prediction = felbo.predict(model, x)
    expected = torch.tensor([[101.0, 1.0], [1.0, 101.0]])
    torch.testing.assert_close(prediction.concentration, expected, rtol=0.02, atol=0)


def test_refuses_what_does_not_fit(logits):
    with pytest.raises(ValueError, match="kl_weight must be finite and ≥ 0, got 'strong'"):
        BeliefMatching(UniformPrior(3), kl_weight="strong")
    with pytest.raises(ValueError, match="kl_weight must be finite and ≥ 0, got -1"):
        BeliefMatching(UniformPrior(3), kl_weight=-1)
    with pytest.raises(ValueError, match="prior has 4 classes and the model 3"):
        BeliefMatching(UniformPrior(4))(outputs_as_they_come(), logits, LABELS)
    with pytest.raises(TypeError, match="ConcentrationNetwork"):
        BeliefMatching(UniformPrior(3))(MAP(nn.Identity()), logits, LABELS)
    with pytest.raises(ValueError, match="Labels must lie in"):
        BeliefMatching(UniformPrior(3))(outputs_as_they_come(), logits, LABELS + 1)
