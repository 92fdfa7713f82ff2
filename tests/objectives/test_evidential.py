"""Evidential learning against a transcription by loops, its annealing and its optimum."""

import pytest
import torch
from torch import nn
from torch.distributions import Dirichlet, kl_divergence

from felbo.models import ConcentrationNetwork
from felbo.objectives import Evidential

LABELS = torch.tensor([1, 0, 2, 2])


def outputs_as_they_come(link="relu"):
    return ConcentrationNetwork(nn.Identity(), link=link)


@pytest.fixture
def logits():
    generator = torch.Generator().manual_seed(11)
    return 3 * torch.randn(4, 3, generator=generator, dtype=torch.float64)


def loop(logits, labels):
    """The two terms, item by item and class by class."""
    errors, divergences = [], []
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        alpha = [max(value, 0.0) + 1 for value in row]
        z = sum(alpha)
        error = 0.0
        for k, a in enumerate(alpha):
            p = a / z
            y = 1.0 if k == label else 0.0
            error += (y - p) ** 2 + p * (1 - p) / (z + 1)
        errors.append(error)
        kept = torch.tensor(
            [1.0 if k == label else a for k, a in enumerate(alpha)], dtype=torch.float64
        )
        divergences.append(kl_divergence(Dirichlet(kept), Dirichlet(torch.ones_like(kept))).item())
    return sum(errors) / len(errors), sum(divergences) / len(divergences)


def test_terms_equal_the_loop(logits):
    objective = Evidential(annealing_steps=10)
    objective.step = 4
    loss = objective(outputs_as_they_come(), logits, LABELS)
    error, divergence = loop(logits, LABELS)
    assert loss.nll.item() == pytest.approx(error, rel=1e-12)
    assert loss.kl.item() == pytest.approx(divergence, rel=1e-9)
    assert loss.total.item() == pytest.approx(error + 0.4 * divergence, rel=1e-9)


def test_first_term_is_the_expected_squared_error(logits):
    loss = Evidential(1)(outputs_as_they_come(), logits, LABELS)
    draws = Dirichlet(logits.relu() + 1).sample((200_000,))
    sampled = (nn.functional.one_hot(LABELS) - draws).square().sum(-1).mean()
    torch.testing.assert_close(loss.nll, sampled, rtol=1e-2, atol=0)


def test_weight_rises_with_training_steps_only(logits):
    objective = Evidential(annealing_steps=4)
    model = outputs_as_they_come()
    weights = []
    for _ in range(6):
        loss = objective(model, logits, LABELS)
        weights.append(((loss.total - loss.nll) / loss.kl).item())
    assert weights == pytest.approx([0, 0.25, 0.5, 0.75, 1, 1])
    objective(model.eval(), logits, LABELS)
    assert objective.step == 6


def test_optimum_has_evidence_for_the_label_alone():
    """With all its evidence on the label both terms fall to zero as that evidence grows."""
    logits = nn.Parameter(torch.ones(1, 3))
    objective = Evidential(1)
    model = outputs_as_they_come()
    optimizer = torch.optim.Adam([logits], lr=0.1)
    label = torch.tensor([2])
    for _ in range(300):
        optimizer.zero_grad()
        objective(model, logits, label).total.backward()
        optimizer.step()
    alpha = model.concentration(logits).detach()[0]
    torch.testing.assert_close(alpha[:2], torch.ones(2), atol=0.02, rtol=0)
    assert alpha[2] > 10


@pytest.mark.parametrize("steps", [0, float("nan"), float("inf")])
def test_refuses_an_annealing_that_never_ends_or_is_none(steps):
    with pytest.raises(ValueError, match=f"annealing_steps must be a number ≥ 1, got {steps}"):
        Evidential(annealing_steps=steps)
