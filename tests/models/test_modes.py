"""Modes inside a block, and every module's own mode after it."""

import pytest
from torch import nn

from felbo.models import MAP, evaluation_mode, training_mode


def network():
    return nn.Sequential(
        nn.Linear(2, 4),
        nn.BatchNorm1d(4),
        nn.Dropout(),
        nn.Sequential(nn.Linear(4, 4), nn.InstanceNorm1d(4, affine=True), nn.LayerNorm(4)),
        nn.Linear(4, 2),
    )


def modes(module):
    return {name: part.training for name, part in module.named_modules()}


def test_parts_frozen_on_purpose_stay_frozen():
    model = MAP(network())
    model.network[1].eval()
    model.network[3].eval()
    before = modes(model)
    with training_mode(model):
        assert modes(model) == before
        assert model.network[2].training
        assert not model.network[3][0].training


def test_a_model_in_evaluation_mode_trains_as_a_whole_and_gets_its_modes_back():
    model = MAP(network()).eval()
    model.network[2].train()  # Monte-Carlo dropout by hand
    before = modes(model)
    with training_mode(model):
        assert all(modes(model).values())
    assert modes(model) == before


@pytest.mark.parametrize("training", [True, False])
def test_frozen_norms(training):
    model = MAP(network()).train(training)
    before = modes(model)
    with training_mode(model, frozen_norms=True):
        frozen = {name for name, mode in modes(model).items() if not mode}
        assert frozen == {"network.1", "network.3.1"}
    assert modes(model) == before


def test_modes_come_back_after_an_error():
    model = MAP(network()).eval()
    model.network[1].train()
    before = modes(model)
    for block in (training_mode(model), evaluation_mode([model, nn.Linear(1, 1)])):
        with pytest.raises(KeyError), block:
            raise KeyError
        assert modes(model) == before


def test_evaluation_mode_reaches_every_module():
    model, other = MAP(network()), nn.Dropout()
    with evaluation_mode([model, other]):
        assert not any(modes(model).values())
        assert not other.training
    assert all(modes(model).values())
    assert other.training


def test_wrapping_copies_the_modes():
    net = network()
    net[1].eval()
    model = MAP(net)
    assert model.training
    assert not model.network[1].training
    assert not MAP(net.eval()).training
