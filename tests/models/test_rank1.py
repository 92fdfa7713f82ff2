"""Rank-1 members: who sees what, in training and in evaluation."""

import pytest
import torch
from torch import nn

from felbo.layers import Rank1Layer
from felbo.models.rank1 import Rank1
from felbo.networks import mlp, resnet18


@pytest.fixture
def model():
    """Three members that differ in their means and have no spread."""
    torch.manual_seed(0)
    model = Rank1(mlp(2, (5,), 4), members=3, rho=-40.0)
    for layer in model.network.modules():
        if isinstance(layer, Rank1Layer):
            nn.init.normal_(layer.input.mean)
            nn.init.normal_(layer.output.mean)
            nn.init.normal_(layer.bias)
    return model


def plain_member(model, member):
    """The plain network that a member amounts to."""
    network = mlp(2, (5,), 4)
    for plain, rank1 in ((network[1], model.network[1]), (network[3], model.network[3])):
        factors = torch.outer(rank1.output.mean[member], rank1.input.mean[member])
        plain.weight = nn.Parameter(rank1.shared.weight * factors)
        plain.bias = nn.Parameter(rank1.bias[member])
    return network


def test_evaluation_runs_every_member_on_every_input(model):
    x = torch.randn(7, 2)
    logits = model.eval()(x)
    assert logits.shape == (3, 7, 4)
    for member in range(3):
        torch.testing.assert_close(logits[member], plain_member(model, member)(x))


def test_training_gives_item_i_to_member_i_modulo_members(model):
    x = torch.randn(7, 2)
    logits = model.train()(x)
    assert logits.shape == (1, 7, 4)
    for item in range(7):
        expected = plain_member(model, item % 3)(x[item : item + 1])
        torch.testing.assert_close(logits[0, item : item + 1], expected)


@pytest.mark.parametrize("training", [True, False])
def test_multiples_repeat_the_members_in_order(model, training):
    x = torch.randn(4, 2)
    logits = model.train(training)(x, num_samples=6)
    torch.testing.assert_close(logits[:3], logits[3:])
    torch.testing.assert_close(logits[1], plain_member(model, 1)(x))


def test_multiples_draw_fresh_factors():
    torch.manual_seed(1)
    logits = Rank1(mlp(2, (5,), 4), 2, rho=0.0).eval()(torch.randn(4, 2), num_samples=4)
    assert not torch.allclose(logits[:2], logits[2:])


@pytest.mark.parametrize(
    ("training", "samples", "message"),
    [
        (False, 1, "3 members and gives a multiple of that many draws; got num_samples=1"),
        (False, 4, "got num_samples=4"),
        (True, 2, "draws, or 1; got num_samples=2"),
    ],
)
def test_other_numbers_of_draws_are_refused(model, training, samples, message):
    with pytest.raises(ValueError, match=message):
        model.train(training)(torch.zeros(4, 2), num_samples=samples)


def test_batch_smaller_than_the_members_is_refused_before_any_work(model):
    model.network.register_forward_pre_hook(lambda *_: pytest.fail("the network ran"))
    with pytest.raises(ValueError, match="batch of 2 cannot be split over 3 members"):
        model.train()(torch.zeros(2, 2))


def test_batch_normalisation_sees_the_whole_batch():
    torch.manual_seed(2)
    network = resnet18(3, width=2)
    model = Rank1(network, members=4, rho=-40.0)
    x = torch.randn(8, 3, 8, 8)
    torch.testing.assert_close(model(x)[0], network(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model.network.bn1.running_mean, network.bn1.running_mean)


def test_divergence_adds_up_over_layers():
    model = Rank1(mlp(2, (5,), 4), members=3)
    layers = [model.network[1], model.network[3]]
    torch.testing.assert_close(model.weight_kl(), sum(layer.kl(0.1) for layer in layers))
    # 2 + 5 and 5 + 4 factors, all alike: the number of members drops out.
    one = torch.distributions.kl_divergence(
        torch.distributions.Normal(1.0, nn.functional.softplus(torch.tensor(-3.0))),
        torch.distributions.Normal(1.0, 0.1),
    )
    torch.testing.assert_close(model.weight_kl(), 16 * one)


def test_names():
    network = resnet18(10, width=1)
    model = Rank1(network, skip=("fc",))
    assert len(model.converted) == 20
    assert {"fc", "bn1"} <= set(model.not_converted)
    assert isinstance(model.network.fc, nn.Linear)
    assert isinstance(model.network.layer1[0].conv1, Rank1Layer)


def test_tied_weights_stay_tied():
    network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    network[1].weight = network[0].weight
    model = Rank1(network, members=2)
    assert model.network[0].shared.weight is model.network[1].shared.weight
    assert model.network[0].shared.weight is not network[0].weight


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"members": 0}, "members must be a whole number of at least 1"),
        ({"prior_std": -1.0}, "prior_std must be positive"),
        ({"rho": float("nan")}, "rho must be finite"),
    ],
)
def test_bad_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        Rank1(nn.Linear(2, 2), **setting)


def test_a_frozen_layer_stays_frozen():
    network = mlp(4, (5,), 3)
    network.requires_grad_(False)
    model = Rank1(network)
    trained = {name for name, part in model.named_parameters() if part.requires_grad}
    assert all(".input." in name or ".output." in name for name in trained)


def test_the_network_can_be_called_by_itself():
    model, x = Rank1(mlp(4, (5,), 3)), torch.randn(32, 4)
    model(x[:16])
    assert model.network(x).shape == (32, 3)
