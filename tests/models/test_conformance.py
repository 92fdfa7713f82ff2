"""What every model must do, whatever its kind: one line per kind in ``KINDS``."""

import copy
import io
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from felbo.evaluation import predict
from felbo.models import (
    MAP,
    Ensemble,
    MCDropout,
    MeanField,
    Radial,
    Rank1,
    StochasticClassifier,
)
from felbo.networks import mlp, resnet18
from felbo.objectives import FunctionSpaceELBO, WeightSpaceELBO
from felbo.priors import UniformPrior


class Kind(NamedTuple):
    """How to make a model, and the setting in which it is the plain network."""

    make: Callable[[Callable[[], nn.Module]], StochasticClassifier]
    limit: Callable[[nn.Module], StochasticClassifier]


# Rates and draws are small for speed: the small ResNet has 20 places for dropout, of few channels.
FEW = {"evaluation_samples": 3}
KINDS = {
    "MAP": Kind(lambda new: MAP(new()), MAP),
    "MCDropout": Kind(lambda new: MCDropout(new(), 0.05, **FEW), lambda net: MCDropout(net, 0.0)),
    "Ensemble": Kind(lambda new: Ensemble(new, 2), lambda net: Ensemble.from_networks([net])),
    "MeanField": Kind(lambda new: MeanField(new(), **FEW), lambda net: MeanField(net, rho=-40.0)),
    "Radial": Kind(lambda new: Radial(new(), **FEW), lambda net: Radial(net, rho=-40.0)),
    "Rank1": Kind(lambda new: Rank1(new(), 2), lambda net: Rank1(net, 1, rho=-40.0)),
}
DETERMINISTIC = {"MAP"}
NETWORKS = {
    "mlp": lambda: mlp(64, (32,), 10),
    "resnet": lambda: resnet18(10, width=4, channels=1),
}
DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.images / 8 - 1, dtype=torch.float32).unsqueeze(1)
LABELS = torch.tensor(DIGITS.target)
OBJECTIVES = {
    "function-space": FunctionSpaceELBO(UniformPrior(10), num_data=len(LABELS)),
    "weight-space": WeightSpaceELBO(num_data=len(LABELS)),
}
X, Y = IMAGES[:32], LABELS[:32]

every_kind = pytest.mark.parametrize("kind", KINDS)
every_network = pytest.mark.parametrize("network", NETWORKS)
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)


def build(kind, network, seed=0):
    torch.manual_seed(seed)
    return KINDS[kind].make(NETWORKS[network])


def logits_of(model, seed=1):
    torch.manual_seed(seed)
    with torch.no_grad():
        return model(X)


def train(model, objective, steps, rate=0.01):
    """A few steps on batches of the digits, the same for the same seed."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    torch.manual_seed(2)
    for _ in range(steps):
        batch = torch.randint(len(LABELS), (32,))
        optimizer.zero_grad()
        OBJECTIVES[objective](model, IMAGES[batch], LABELS[batch]).total.backward()
        optimizer.step()


def assert_same_state(first, second):
    assert list(first) == list(second)
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], rtol=0, atol=0, msg=name)


@every_kind
@every_network
def test_draws_come_first(kind, network):
    model = build(kind, network)
    assert model.train()(X).shape == (model.training_samples, 32, 10)
    assert model.eval()(X).shape == (model.evaluation_samples, 32, 10)
    twice = model.evaluation_samples * (1 if kind == "Ensemble" else 2)
    assert model(X, num_samples=twice).shape == (twice, 32, 10)


@every_kind
def test_fewer_than_one_draw_is_refused(kind):
    with pytest.raises(ValueError, match="at least 1, got 0"):
        build(kind, "mlp")(X, num_samples=0)


@every_kind
@every_network
def test_draws_differ_where_the_model_is_random(kind, network):
    spread = logits_of(build(kind, network).eval()).std(0, correction=0).max()
    assert (spread == 0) == (kind in DETERMINISTIC)


@every_kind
@every_network
@every_objective
def test_same_seed_gives_the_same_trained_model(kind, network, objective):
    first, second = build(kind, network), build(kind, network)
    for model in (first, second):
        train(model, objective, steps=2)
    assert_same_state(first.state_dict(), second.state_dict())
    torch.testing.assert_close(logits_of(first), logits_of(second), rtol=0, atol=0)


@every_kind
@every_network
@every_objective
def test_gradient_reaches_every_parameter(kind, network, objective):
    model = build(kind, network)
    OBJECTIVES[objective](model, X, Y).total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


@every_kind
@every_network
@every_objective
def test_training_lowers_the_loss(kind, network, objective):
    model = build(kind, network)
    before = OBJECTIVES[objective](model, X, Y)
    train(model, objective, steps=15)
    after = OBJECTIVES[objective](model, X, Y)
    assert after.total < before.total
    assert after.nll < 0.9 * before.nll


@every_kind
@every_network
def test_divergence_of_the_weights_is_a_scalar_that_is_not_negative(kind, network):
    divergence = build(kind, network).weight_kl()
    assert divergence.shape == ()
    assert divergence >= 0
    assert (divergence == 0) == (kind in {"MAP", "MCDropout", "Ensemble"})


@every_kind
@every_network
def test_saved_state_gives_identical_predictions(kind, network):
    model = build(kind, network)
    train(model, "weight-space", steps=1)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = build(kind, network, seed=9)
    assert not torch.equal(logits_of(other.eval()), logits_of(model.eval()))
    other.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(logits_of(other), logits_of(model), rtol=0, atol=0)


@every_kind
@every_network
def test_deepcopy_is_equal_and_independent(kind, network):
    model = build(kind, network)
    before = copy.deepcopy(model.state_dict())
    twin = copy.deepcopy(model)
    torch.testing.assert_close(logits_of(twin.eval()), logits_of(model.eval()), rtol=0, atol=0)
    twin.train()
    train(twin, "weight-space", steps=1)
    assert_same_state(model.state_dict(), before)
    assert not torch.equal(logits_of(twin.eval()), logits_of(model))


@every_kind
@every_network
def test_evaluation_leaves_nothing_behind(kind, network):
    model = build(kind, network).eval()
    before = copy.deepcopy(model.state_dict())
    first = logits_of(model)
    model(X[:8])
    assert_same_state(model.state_dict(), before)
    torch.testing.assert_close(logits_of(model), first, rtol=0, atol=0)


@every_kind
@every_network
@pytest.mark.parametrize("training", [True, False])
def test_predict_puts_the_mode_back(kind, network, training):
    model = build(kind, network).train(training)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()  # frozen by the user
    modes = [module.training for module in model.modules()]
    assert training in modes
    predict(model, X)
    assert [module.training for module in model.modules()] == modes


@every_kind
@every_network
def test_double_precision(kind, network):
    model = build(kind, network).double()
    logits = model(X.double())
    assert logits.dtype == torch.float64
    assert logits.isfinite().all()


@every_kind
@every_network
@pytest.mark.parametrize("training", [True, False])
def test_limit_is_the_plain_network(kind, network, training):
    torch.manual_seed(3)
    plain = NETWORKS[network]()
    model = KINDS[kind].limit(plain).train(training)
    expected = MAP(plain).train(training)(X)
    for draw in model(X):
        torch.testing.assert_close(draw, expected[0], rtol=1e-4, atol=1e-4)


@every_kind
def test_limit_has_the_gradient_of_the_plain_network(kind):
    torch.manual_seed(4)
    plain = NETWORKS["mlp"]()
    model, point = KINDS[kind].limit(plain), MAP(plain)
    gradients = []
    for candidate in (model, point):
        x = X.clone().requires_grad_()
        OBJECTIVES["function-space"](candidate, x, Y).total.backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


@every_kind
@every_network
def test_network_of_the_user_is_untouched(kind, network):
    torch.manual_seed(5)
    plain = NETWORKS[network]()
    before, shape = copy.deepcopy(plain.state_dict()), repr(plain)
    model = KINDS[kind].limit(plain)
    train(model, "weight-space", steps=1)
    assert_same_state(plain.state_dict(), before)
    assert repr(plain) == shape
    assert all(parameter.grad is None for parameter in plain.parameters())
