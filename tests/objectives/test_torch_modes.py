"""The bound under the transforms and modes of torch."""

import pytest
import torch
from torch import nn
from torch.distributions import Dirichlet
from torch.func import functional_call, grad, hessian, vmap

from felbo import MAP, DirichletPrior, Ensemble, FunctionSpaceELBO
from felbo.networks import mlp

from .. import oracle
from .free import FreeLogits, correlated, inputs

BETA = [0.5, 1.0, 2.0]
X, Y = torch.linspace(-2, 2, 10).view(5, 2), torch.tensor([0, 1, 2, 0, 1])
MODELS = {
    "one draw": lambda: MAP(mlp(2, (4,), 3)),
    "three draws": lambda: Ensemble(lambda: mlp(2, (4,), 3), members=3),
}
pytestmark = pytest.mark.filterwarnings("ignore:kl_weight")


class Bound(nn.Module):
    """Model and objective as one module, which functional_call needs."""

    def __init__(self, model, objective):
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, x, y):
        return self.objective(self.model, x, y).total


def case(kind, **options):
    objective = FunctionSpaceELBO(DirichletPrior(BETA), 50, kl_weight=0.1, **options)
    bound = Bound(MODELS[kind](), objective)
    parameters = {name: value.detach() for name, value in bound.named_parameters()}
    return bound, parameters, lambda p, x, y: functional_call(bound, p, (x, y))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("gradient", ["partial", "total"])
def test_func_grad_is_that_of_backward_and_the_mean_of_those_per_item(kind, gradient):
    bound, parameters, loss = case(kind, gradient=gradient)
    bound(X, Y).backward()
    found = grad(loss)(parameters, X, Y)
    per_item = vmap(grad(loss), (None, 0, 0))(parameters, X[:, None], Y[:, None])
    for name, parameter in bound.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(per_item[name].mean(0), parameter.grad, rtol=1e-4, atol=1e-6)


def test_gradients_per_item_under_a_prior_that_depends_on_the_input():
    bound, parameters, loss = case("three draws")
    bound.objective.prior = lambda x: Dirichlet(1 + x.square() @ torch.ones(2, 3))
    per_item = vmap(grad(loss), (None, 0, 0))(parameters, X[:, None], Y[:, None])
    bound(X, Y).backward()
    for name, parameter in bound.named_parameters():
        torch.testing.assert_close(per_item[name].mean(0), parameter.grad, rtol=1e-4, atol=1e-6)
    bound.objective.prior = lambda x: Dirichlet(x @ torch.ones(2, 3), validate_args=False)
    with pytest.raises(ValueError, match="positive and finite"):
        vmap(grad(loss), (None, 0, 0))(parameters, X[:, None], Y[:, None])


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("gradient", ["partial", "total"])
def test_func_hessian_is_that_of_repeated_backward(kind, gradient):
    """Forward over reverse takes the plain form, reverse over reverse the fused one."""
    bound, parameters, loss = case(kind, gradient=gradient)
    name, parameter = list(bound.named_parameters())[-1]
    (first,) = torch.autograd.grad(bound(X, Y), parameter, create_graph=True)
    rows = [
        torch.autograd.grad(value, parameter, retain_graph=True)[0] for value in first.flatten()
    ]
    found = hessian(loss)(parameters, X, Y)[name][name]
    torch.testing.assert_close(found.flatten(), torch.cat(rows).flatten(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", MODELS)
def test_inference_mode(kind):
    bound, _, _ = case(kind)
    expected = bound.objective(bound.model, X, Y)
    with torch.inference_mode():
        found = bound.objective(bound.model, X, Y)
    torch.testing.assert_close(found, tuple(part.detach() for part in expected))


@pytest.mark.parametrize("kind", MODELS)
def test_bfloat16_logits_lose_nothing_more(kind):
    bound, _, _ = case(kind)
    with torch.autocast("cpu", torch.bfloat16):
        logits = bound.model(X)
        loss = bound.objective(bound.model, X, Y)
    assert logits.dtype == torch.bfloat16
    assert loss.total.dtype == torch.float32
    expected, _ = oracle.kl(logits.detach(), torch.tensor(BETA), 50)
    torch.testing.assert_close(loss.kl.double(), expected.mean(), rtol=1e-5, atol=1e-5)
    loss.total.backward()
    assert all(parameter.grad.isfinite().all() for parameter in bound.parameters())


@pytest.mark.parametrize("draws", [1, 5])
def test_autocast_does_not_reach_the_kl(draws):
    model = FreeLogits(correlated(draws, classes=3, dtype=torch.float32))
    objective = FunctionSpaceELBO(DirichletPrior(BETA), 60_000)
    expected = objective(model, inputs(6), torch.zeros(6, dtype=torch.int64))
    with torch.autocast("cpu", torch.bfloat16):
        found = objective(model, inputs(6), torch.zeros(6, dtype=torch.int64))
    torch.testing.assert_close(found.kl, expected.kl, rtol=1e-6, atol=0)
