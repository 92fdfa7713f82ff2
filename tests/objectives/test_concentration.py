"""What holds for every objective of a network that gives concentrations."""

import pytest
import torch
from torch import nn

from felbo.measurement import Augmented, Pool
from felbo.models import ConcentrationNetwork
from felbo.objectives import BeliefMatching, Evidential, PriorNetwork
from felbo.priors import UniformPrior


def annealed(points):
    objective = Evidential(1)
    objective.step = 1
    return objective


OBJECTIVES = {
    "belief matching": lambda points: BeliefMatching(UniformPrior(3), kl_weight=0.2),
    "evidential": annealed,
    "reverse": lambda points: PriorNetwork(points, direction="reverse", precision=10.0),
    "forward": lambda points: PriorNetwork(points, direction="forward", precision=10.0),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradient_equals_finite_differences(name):
    generator = torch.Generator().manual_seed(3)
    logits, outside = (
        2 * torch.randn(4, 3, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    model, objective = ConcentrationNetwork(nn.Identity()).eval(), OBJECTIVES[name](Pool(outside))
    assert torch.autograd.gradcheck(
        lambda l: objective(model, l, torch.tensor([0, 2, 1, 2])).total, (logits.requires_grad_(),)
    )


@pytest.mark.parametrize(
    ("name", "link"), [*((name, "exp") for name in OBJECTIVES), ("evidential", "relu")]
)
@pytest.mark.parametrize("pattern", [[500, -500, 0], [-500, 500, 500], [-500] * 3, [500] * 3])
def test_extreme_logits_have_finite_losses_and_gradients(name, link, pattern):
    logits = torch.tensor([pattern], dtype=torch.float32, requires_grad=True)
    objective = OBJECTIVES[name](Augmented(lambda x: x.flip(-1)))
    model = ConcentrationNetwork(nn.Identity(), link=link)
    loss = objective(model, logits, torch.tensor([0]))
    loss.total.backward()
    assert loss.total.isfinite()
    assert logits.grad.isfinite().all()
    assert name == "evidential" or logits.grad.abs().max() > 0
