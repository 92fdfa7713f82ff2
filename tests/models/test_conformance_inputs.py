"""Inputs, outputs, precisions and wrappers that every kind of model takes."""

from types import SimpleNamespace

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn
from torch.optim.swa_utils import AveragedModel

import felbo
from felbo.models import Ensemble, training_mode, unwrap
from felbo.networks import mlp

from .kinds import KINDS, NETWORKS, TRAINED, X, build, convolutional, fitted

every_kind = pytest.mark.parametrize("kind", KINDS)
every_trained_kind = pytest.mark.parametrize("kind", TRAINED)
every_network = pytest.mark.parametrize("network", NETWORKS)
PARTS = X.flatten(1).split([24, 40], dim=1)
INPUTS = {
    "tuple": PARTS,
    "list": list(PARTS),
    "dict": {"left": PARTS[0], "right": PARTS[1]},
    "reordered dict": {"right": PARTS[1], "left": PARTS[0]},
}


class TwoInputs(nn.Module):
    """A network of two arguments, which returns an object that has logits."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(24, 10), nn.Linear(40, 10)
        self.last = nn.Linear(10, 10)

    def forward(self, left, right):
        hidden = torch.tanh(self.left(left) + self.right(right))
        return SimpleNamespace(logits=self.last(hidden), hidden=hidden)


class Joined(nn.Module):
    """The same network on one tensor."""

    def __init__(self):
        super().__init__()
        self.network = TwoInputs()

    def forward(self, x):
        return self.network(*x.flatten(1).split([24, 40], dim=1)).logits


def of_two_inputs(kind, x):
    if kind == "SubnetworkLaplace":
        torch.manual_seed(0)
        return fitted(TwoInputs(), x)
    return build(kind, TwoInputs)


@every_kind
@pytest.mark.parametrize("structure", INPUTS)
def test_inputs_of_any_structure_are_the_same_function(kind, structure):
    x = INPUTS[structure]
    model, joined = of_two_inputs(kind, x), build(kind, Joined)
    for training in (True, False):
        draws = []
        for candidate, inputs in ((model, x), (joined, X)):
            torch.manual_seed(1)
            draws.append(candidate.train(training)(inputs))
        assert draws[0].shape[1:] == (32, 10)
        torch.testing.assert_close(*draws, rtol=1e-4, atol=1e-4)


def test_members_that_are_stacked_or_recomputed_take_any_structure():
    x = X.flatten(1)
    stacked = Ensemble(lambda: mlp(64, (), 10), 2)
    for inputs in ((x,), {"input": x}):
        torch.testing.assert_close(stacked(inputs), stacked(x))
    torch.manual_seed(0)
    frugal = Ensemble(TwoInputs, 2, low_memory=True)
    torch.manual_seed(0)
    plain = Ensemble(TwoInputs, 2)
    for model in (frugal, plain):
        model(INPUTS["dict"]).square().sum().backward()
    for ours, theirs in zip(frugal.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@every_kind
def test_parts_of_different_lengths_are_refused(kind):
    model = of_two_inputs(kind, PARTS)
    with pytest.raises(ValueError, match=r"same number of items.*got sizes \[7, 32\]"):
        model((PARTS[0], PARTS[1][:7]))


class Reshaped(nn.Module):
    """A network whose output has the shape of a mistake."""

    def __init__(self, shape):
        super().__init__()
        self.layer, self.shape = nn.Linear(64, 32), shape

    def forward(self, x):
        y = self.layer(x.flatten(1))
        return {
            "[B]": y[:, 0],
            "[B, 1]": y[:, :1],
            "[2 B, K]": y.reshape(2 * len(x), 16),
            "[B / 2, K]": y.reshape(len(x) // 2, 64),
            "[B, T, K]": y.reshape(len(x), 4, 8),
        }[self.shape]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("[B]", "binary problem takes two logits"),
        ("[B, 1]", "binary problem takes two logits"),
        ("[2 B, K]", "rows are not the inputs"),
        ("[B / 2, K]", "rows are not the inputs"),
        ("[B, T, K]", "Average over or flatten"),
    ],
)
@every_trained_kind
@pytest.mark.parametrize("training", [True, False])
def test_outputs_that_are_no_logits_are_refused(kind, shape, message, training):
    model = build(kind, lambda: Reshaped(shape)).train(training)
    with pytest.raises(ValueError, match=rf"must give logits \[\d+, K\].*{message}"):
        model(X)


def test_stacked_perceptrons_check_their_outputs_too():
    with pytest.raises(ValueError, match="must give logits"):
        Ensemble(lambda: mlp(64, (4,), 1), 2)(X)


@every_kind
@every_network
def test_double_precision(kind, network):
    logits = build(kind, NETWORKS[network]).double()(X.double())
    assert logits.dtype == torch.float64
    assert logits.isfinite().all()


@every_kind
@every_network
def test_inference_mode(kind, network):
    model = build(kind, NETWORKS[network]).eval()
    torch.manual_seed(1)
    with torch.inference_mode():
        found = model(X)
    torch.manual_seed(1)
    torch.testing.assert_close(found, model(X), rtol=1e-4, atol=1e-4)


@every_kind
@every_network
def test_autocast(kind, network):
    model = build(kind, NETWORKS[network]).eval()
    draws = []
    for enabled in (True, False):
        torch.manual_seed(1)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            draws.append(model(X).float())
    # Laplace linearises in full precision.
    assert torch.equal(*draws) == (kind == "SubnetworkLaplace")
    # The bfloat16 mantissa has 8 bits; dropout draws its masks in another order there.
    if kind != "MCDropout":
        assert (draws[0] - draws[1]).abs().max() < 0.05 * draws[1].abs().max()


@every_kind
def test_compiled_models_are_the_same_function(kind):
    model = build(kind).eval()
    compiled = torch.compile(model, backend="eager")
    torch.manual_seed(1)
    found = compiled(X)
    torch.manual_seed(1)
    torch.testing.assert_close(found, model(X))
    assert unwrap(compiled) is model


@every_kind
def test_wrappers_are_seen_through(kind):
    model = build(kind).eval()
    average = AveragedModel(model)
    assert unwrap(average) is average.module
    assert average(X).shape == (model.evaluation_samples, 32, 10)
    assert unwrap(Fabric(accelerator="cpu", devices=1).setup(model)) is model
    assert unwrap(model) is model


@every_trained_kind
def test_normalisation_frozen_on_purpose_stays_frozen_and_the_rest_trains(kind):
    def frozen():
        network = convolutional()
        network[1].eval()
        return network

    model = build(kind, frozen)
    norms = [part for part in model.modules() if isinstance(part, nn.BatchNorm2d)]
    assert model.training
    assert norms
    with training_mode(model):
        model(X)
        assert not any(norm.training for norm in norms)
    assert all(norm.num_batches_tracked == 0 for norm in norms)
    thawed = build(kind, convolutional).eval()
    with training_mode(thawed):
        thawed(X)
    norms = [part for part in thawed.modules() if isinstance(part, nn.BatchNorm2d)]
    assert all(norm.num_batches_tracked > 0 for norm in norms)


@pytest.mark.parametrize("training", [True, False])
@every_trained_kind
def test_models_are_in_the_mode_of_their_network(kind, training):
    assert build(kind, lambda: convolutional().train(training)).training == training


class Overwriting(nn.Module):
    """A network that scales its input, in place or not."""

    def __init__(self, in_place=True):
        super().__init__()
        self.in_place, self.layer = in_place, nn.Linear(64, 10)

    def forward(self, x):
        x = x.mul_(0.5) if self.in_place else x * 0.5
        return self.layer(x.flatten(1))


@every_kind
def test_a_network_that_overwrites_its_input_sees_it_in_every_draw(kind):
    models = build(kind, Overwriting), build(kind, lambda: Overwriting(in_place=False))
    x = X.clone()
    for training in (True, False, False):
        draws = []
        for model in models:
            torch.manual_seed(1)
            draws.append(model.train(training)(x))
        torch.testing.assert_close(*draws)
        assert torch.equal(x, X)


def test_dropout_in_place_is_seen_in_training_though_evaluation_came_first():
    model = Ensemble(lambda: nn.Sequential(nn.Dropout(inplace=True), mlp(64, (), 10)), 2)
    x = X.flatten(1).clone()
    for training in (False, True):
        model.train(training)(x)
        assert torch.equal(x, X.flatten(1))


@pytest.mark.parametrize("batch_size", [7, 100])
def test_networks_of_a_list_that_overwrite_their_input(batch_size):
    torch.manual_seed(0)
    networks = [Overwriting() for _ in range(3)]
    x = X.clone()
    found = felbo.predict(networks, x, batch_size=batch_size)
    for network in networks:
        network.in_place = False
    torch.testing.assert_close(found.probs, felbo.predict(networks, X).probs)
    assert torch.equal(x, X)
