"""Trainings and losses on floats that hypothesis picks: refused, or finite and right."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import felbo
from felbo import DirichletPrior, FelboError, FunctionSpaceELBO

from . import oracle
from .objectives.free import FreeLogits, inputs

ANY = st.floats(width=32)
FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)
# Losses of much larger ones, and their gradients, are beyond float32: infinite, as felbo.fit says.
LARGE = st.floats(-(2.0**100), 2.0**100, width=32)
FEW = settings(max_examples=60, deadline=None, derandomize=True)
pytestmark = pytest.mark.filterwarnings("ignore")


class Fixed(felbo.MAP):
    """Logits ``x · w`` of two classes, with weights that are given."""

    def __init__(self, weight):
        network = nn.Linear(1, 2, bias=False)
        with torch.no_grad():
            network.weight.copy_(torch.tensor(weight).view(2, 1))
        super().__init__(network)


@FEW
@given(
    x=st.lists(ANY, min_size=4, max_size=4),
    weight=st.lists(ANY, min_size=2, max_size=2),
    rate=ANY,
)
def test_a_training_is_refused_or_ends_with_finite_weights(x, weight, rate):
    model = Fixed(weight)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    data = torch.tensor(x).view(4, 1), torch.tensor([0, 1, 0, 1])
    objective = FunctionSpaceELBO(felbo.UniformPrior(2), 4)
    options = {"epochs": 2, "batch_size": 2, "learning_rate": rate, "progress": False}
    try:
        history = felbo.fit(model, objective, data, seed=0, **options)
    except FelboError:
        finite = all(value.isfinite().all() for value in before)
        assert not finite or all(p.isfinite().all() for p in model.parameters())
        return
    assert all(math.isfinite(value) for value in history.total)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert all(map(math.isfinite, (*x, *weight, rate)))


@FEW
@given(
    logits=st.lists(FINITE, min_size=12, max_size=12),
    beta=st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=3),
    double=st.booleans(),
    draws=st.sampled_from([1, 2]),
)
def test_the_bound_is_that_of_the_definition(logits, beta, double, draws):
    dtype = torch.float64 if double else torch.float32
    values = torch.tensor(logits, dtype=dtype).view(2, 2, 3)[:draws]
    model = FreeLogits(values)
    loss = FunctionSpaceELBO(DirichletPrior(beta), 1000, kl_weight=1.0)(
        model, inputs(2), torch.tensor([0, 2])
    )
    loss.total.backward()
    expected = float(oracle.kl(values, torch.tensor(beta), 1000.0)[0].mean())
    near = 1e-5 if double else 2e-3
    assert float(loss.kl.detach()) == pytest.approx(expected, rel=near, abs=near)
    assert model.logits.grad.isfinite().all()


OTHERS = {
    "likelihood": felbo.NegativeLogLikelihood,
    "total": lambda: FunctionSpaceELBO(felbo.UniformPrior(3), 1000, gradient="total"),
    "weights": lambda: felbo.WeightSpaceELBO(1000),
}


@pytest.mark.parametrize("name", OTHERS)
@FEW
@given(logits=st.lists(LARGE, min_size=12, max_size=12))
def test_other_losses_and_their_gradients_are_finite(name, logits):
    model = FreeLogits(torch.tensor(logits).view(2, 2, 3))
    loss = OTHERS[name]()(model, inputs(2), torch.tensor([0, 2]))
    loss.total.backward()
    assert loss.total.isfinite()
    assert model.logits.grad.isfinite().all()


@FEW
@given(outputs=st.lists(LARGE, min_size=6, max_size=6))
def test_objectives_of_concentrations_are_finite_or_refused(outputs):
    class Given(nn.Module):
        def __init__(self):
            super().__init__()
            self.values = nn.Parameter(torch.tensor(outputs).view(2, 3))

        def forward(self, x):
            return self.values

    for objective in (felbo.BeliefMatching(felbo.UniformPrior(3)), felbo.Evidential(10)):
        model = felbo.ConcentrationNetwork(Given())
        try:
            loss = objective(model, inputs(2), torch.tensor([0, 2]))
            loss.total.backward()
        except FelboError:
            continue
        assert loss.total.isfinite()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
