"""What every model must do, whatever its kind: one line per kind in ``kinds.py``."""

import copy
import io

import pytest
import torch
from torch import nn

from felbo.evaluation import predict
from felbo.models import MAP
from felbo.objectives import FunctionSpaceELBO, WeightSpaceELBO
from felbo.priors import UniformPrior

from .kinds import (
    DETERMINISTIC,
    IMAGES,
    KINDS,
    LABELS,
    NETWORKS,
    TRAINED,
    Transformer,
    X,
    Y,
    build,
)

OBJECTIVES = {
    "function-space": FunctionSpaceELBO(UniformPrior(10), num_data=len(LABELS)),
    "weight-space": WeightSpaceELBO(num_data=len(LABELS)),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_trained_kind = pytest.mark.parametrize("kind", TRAINED)
every_network = pytest.mark.parametrize("network", NETWORKS)
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)
# Where a limit is taken, that is what it is about.
equal_draws = pytest.mark.filterwarnings("ignore:All .* draws")


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
    assert model(X[:1]).shape == (model.evaluation_samples, 1, 10)


@every_kind
def test_fewer_than_one_draw_is_refused(kind):
    with pytest.raises(ValueError, match="at least 1, got 0"):
        build(kind, "mlp")(X, num_samples=0)


@every_kind
@every_network
@pytest.mark.parametrize("gradients", [True, False])
def test_draws_differ_where_the_model_is_random(kind, network, gradients):
    model = build(kind, network).eval()
    with torch.set_grad_enabled(gradients):
        spread = model(X).std(0, correction=0).max()
    assert model.is_random == (spread > 0) == (kind not in DETERMINISTIC)


@every_trained_kind
@every_network
@every_objective
def test_gradient_reaches_every_parameter(kind, network, objective):
    model = build(kind, network)
    OBJECTIVES[objective](model, X, Y).total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


@every_trained_kind
@every_network
def test_training_lowers_the_loss_and_repeats_itself(kind, network):
    trained = [build(kind, network), build(kind, network)]
    before = OBJECTIVES["function-space"](copy.deepcopy(trained[0]), X, Y)
    for model in trained:
        train(model, "function-space", steps=12, rate=0.02)
    assert_same_state(*(model.state_dict() for model in trained))
    after = OBJECTIVES["function-space"](trained[0], X, Y)
    assert after.total < before.total
    assert after.nll < 0.9 * before.nll


@every_trained_kind
def test_training_in_weight_space_lowers_the_loss(kind):
    model = build(kind, "mlp")
    before = OBJECTIVES["weight-space"](model, X, Y)
    train(model, "weight-space", steps=12)
    assert OBJECTIVES["weight-space"](model, X, Y).total < before.total


@every_kind
@every_network
def test_divergence_of_the_weights_is_a_scalar_that_is_not_negative(kind, network):
    divergence = build(kind, network).weight_kl()
    assert divergence.shape == ()
    assert divergence >= 0
    assert (divergence > 0) == (kind in {"MeanField", "Radial", "Rank1"})


@every_kind
@every_network
def test_saved_state_gives_identical_predictions(kind, network):
    model = build(kind, network).eval()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = build(kind, network, seed=9).eval()
    assert not torch.equal(logits_of(other), logits_of(model))
    other.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(logits_of(other), logits_of(model), rtol=0, atol=0)


@every_kind
@every_network
def test_deepcopy_is_equal_and_independent(kind, network):
    model = build(kind, network).eval()
    before = copy.deepcopy(model.state_dict())
    twin = copy.deepcopy(model)
    torch.testing.assert_close(logits_of(twin), logits_of(model), rtol=0, atol=0)
    for parameter in twin.parameters():
        nn.init.normal_(parameter)
    assert_same_state(model.state_dict(), before)
    assert not torch.equal(logits_of(twin), logits_of(model))


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


def limit(kind, network):
    """A model that amounts to the plain network, and that network."""
    torch.manual_seed(3)
    # Where own dropout is switched off by the limit, the plain network has none.
    plain = Transformer(dropout=0.0) if network == "transformer" else NETWORKS[network]()
    return KINDS[kind].limit(plain), plain


@equal_draws
@every_kind
@every_network
@pytest.mark.parametrize("training", [True, False])
def test_limit_is_the_plain_network(kind, network, training):
    model, plain = limit(kind, network)
    # The network of a Laplace posterior stays in evaluation mode.
    expected = MAP(plain).train(training and kind in TRAINED)(X)
    for draw in model.train(training)(X):
        torch.testing.assert_close(draw, expected[0], rtol=1e-4, atol=1e-4)


@every_trained_kind
@every_network
def test_limit_has_the_gradient_of_the_plain_network(kind, network):
    model, plain = limit(kind, network)
    gradients = []
    for candidate in (model, MAP(plain)):
        x = X.clone().requires_grad_()
        OBJECTIVES["function-space"](candidate, x, Y).total.backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


@every_trained_kind
@every_network
def test_network_of_the_user_is_untouched(kind, network):
    _, plain = limit(kind, network)
    before, shape = copy.deepcopy(plain.state_dict()), repr(plain)
    modes = [module.training for module in plain.modules()]
    model = KINDS[kind].limit(plain)
    train(model.train(), "weight-space", steps=1)
    model.eval()
    assert_same_state(plain.state_dict(), before)
    assert repr(plain) == shape
    assert [module.training for module in plain.modules()] == modes
    assert all(parameter.grad is None for parameter in plain.parameters())
