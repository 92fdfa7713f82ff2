"""Prior Networks against torch.distributions, in both directions, and their optimum."""

import pytest
import torch
from torch import nn
from torch.distributions import Dirichlet, kl_divergence

from felbo.measurement import Augmented, Batch, Mixture, Pool
from felbo.models import ConcentrationNetwork
from felbo.objectives import PriorNetwork

LABELS = torch.tensor([1, 0, 3])


@pytest.fixture
def logits():
    generator = torch.Generator().manual_seed(5)
    return torch.randn(3, 4, generator=generator, dtype=torch.float64)


@pytest.fixture
def outside():
    generator = torch.Generator().manual_seed(6)
    return torch.randn(5, 4, generator=generator, dtype=torch.float64)


def outputs_as_they_come():
    return ConcentrationNetwork(nn.Identity())


@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_terms_are_those_of_torch_distributions(direction, logits, outside):
    objective = PriorNetwork(
        Pool(outside), direction=direction, precision=50.0, smoothing=0.2, ood_weight=0.5
    )
    loss = objective(outputs_as_they_come(), logits, LABELS)
    target = torch.full((3, 4), 50 * 0.2 / 4, dtype=torch.float64)
    for row, label in enumerate(LABELS):
        target[row, label] += 50 * 0.8
    pairs = [
        (Dirichlet(logits.exp()), Dirichlet(target)),
        (Dirichlet(outside.exp()), Dirichlet(torch.ones(5, 4, dtype=torch.float64))),
    ]
    if direction == "forward":
        pairs = [(target, model) for model, target in pairs]
    inner, outer = (kl_divergence(*pair).mean() for pair in pairs)
    torch.testing.assert_close(loss.nll, inner)
    torch.testing.assert_close(loss.kl, outer)
    torch.testing.assert_close(loss.total, inner + 0.5 * outer)


def test_the_directions_differ(logits, outside):
    losses = [
        PriorNetwork(Pool(outside), direction=d)(outputs_as_they_come(), logits, LABELS).total
        for d in ("reverse", "forward")
    ]
    assert (losses[0] - losses[1]).abs() > 1


@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_the_loss_is_zero_at_its_targets(direction):
    """Default target for K = 10: α_y = 91 and 1 elsewhere; 1 everywhere out of distribution."""
    logits = torch.zeros(2, 10, dtype=torch.float64)
    labels = torch.tensor([4, 9])
    logits[[0, 1], labels] = torch.tensor(91.0, dtype=torch.float64).log()
    objective = PriorNetwork(Augmented(torch.zeros_like), direction=direction)
    loss = objective(outputs_as_they_come(), logits.requires_grad_(), labels)
    assert loss.total.abs() < 1e-10
    loss.total.backward()
    assert logits.grad.abs().max() < 1e-10


def test_several_labels_at_one_input():
    """Reverse: the minimum is at the mean of the targets. Forward: at a far lower precision."""
    labels = torch.tensor([0, 1])
    mean = torch.tensor([[45 + 10 / 3, 45 + 10 / 3, 10 / 3]], dtype=torch.float64)

    def loss(direction, logits):
        objective = PriorNetwork(Augmented(torch.zeros_like), direction=direction)
        return objective(outputs_as_they_come(), logits.expand(2, 3), labels).total

    best = mean.log().requires_grad_()
    loss("reverse", best).backward()
    assert best.grad.abs().max() < 1e-10
    assert loss("reverse", (mean / 20).log()) > loss("reverse", best) + 1
    assert loss("forward", (mean / 20).log()) < loss("forward", best) - 1


def test_refuses_what_does_not_fit(logits):
    ood = Augmented(lambda x: x + 1)
    with pytest.raises(ValueError, match="'reverse', 'forward'; got 'sideways'"):
        PriorNetwork(ood, direction="sideways")
    with pytest.raises(ValueError, match=r"must be positive, got 0 and 0\.1"):
        PriorNetwork(ood, precision=0)
    with pytest.raises(ValueError, match=r"must be positive, got 100\.0 and 0"):
        PriorNetwork(ood, smoothing=0)
    with pytest.raises(ValueError, match="ood_weight"):
        PriorNetwork(ood, ood_weight=float("nan"))
    with pytest.raises(ValueError, match="cannot be out of distribution"):
        PriorNetwork(Mixture(Batch(), ood))
    with pytest.raises(ValueError, match="returned None, and so no points"):
        PriorNetwork(lambda x: None)(outputs_as_they_come(), logits, LABELS)
