"""Which layers are found, skipped, reported and replaced."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from felbo.models._conversion import (
    WEIGHT_LAYERS,
    replace_layers,
    selected_layers,
    unselected_modules,
)
from felbo.networks import mlp, resnet18


def names(network, skip=()):
    return list(selected_layers(network, WEIGHT_LAYERS, skip))


def test_finds_every_layer_of_a_resnet_in_order():
    network = resnet18(10, width=1)
    found = names(network)
    assert found[0] == "conv1"
    assert found[-1] == "fc"
    assert len(found) == 1 + 16 + 3 + 1  # stem, two per block, three ways around, last layer


def test_skip_takes_layers_and_modules_that_hold_layers():
    network = resnet18(10, width=1)
    kept = names(network, ("fc", "layer1", "layer2.0.conv1"))
    assert not any(name == "fc" or name.startswith("layer1.") for name in kept)
    assert "layer2.0.conv1" not in kept
    assert "layer2.0.conv2" in kept


def test_skip_does_not_match_a_name_that_only_begins_alike():
    network = nn.ModuleDict({"fc": nn.Linear(1, 1), "fc2": nn.Linear(1, 1)})
    assert names(network, ("fc",)) == ["fc2"]


def test_single_string_is_refused():
    with pytest.raises(TypeError, match=r"use \('fc',\)"):
        names(resnet18(10, width=1), "fc")


@pytest.mark.parametrize(
    ("network", "skip"),
    [(nn.Sequential(nn.Flatten()), ()), (mlp(2, (), 3), ("1",)), (nn.LSTM(2, 3), ())],
)
def test_nothing_to_convert_is_an_error(network, skip):
    with pytest.raises(ValueError, match="Nothing to convert"):
        names(network, skip)


def test_lazy_layer_is_an_error_that_says_what_to_do():
    with pytest.raises(ValueError, match=r"'0' is lazy.*run one batch"):
        names(nn.Sequential(nn.LazyLinear(3)))


def test_layer_without_a_weight_of_its_own_is_left_alone():
    network = nn.Sequential(weight_norm(nn.Linear(2, 3)), nn.Linear(3, 2))
    assert names(network) == ["1"]


def test_unselected_modules_are_those_with_parameters():
    network = nn.Sequential(nn.Embedding(3, 2), nn.Linear(2, 2), nn.ReLU(), nn.BatchNorm1d(2))
    assert unselected_modules(network, ["1"]) == ("0", "3")


def test_replace_reaches_every_place_of_a_shared_layer():
    shared = nn.Linear(2, 2)
    network = nn.Sequential(shared, nn.Sequential(nn.ReLU(), shared), shared)
    layers = selected_layers(network, WEIGHT_LAYERS, ())
    assert list(layers) == ["0"]
    replaced = replace_layers(network, layers, lambda layer: nn.Sequential(layer, nn.Tanh()))
    assert replaced is network
    assert network[0] is network[1][1] is network[2]
    assert isinstance(network[0], nn.Sequential)


def test_replace_of_a_network_that_is_a_layer():
    layer = nn.Linear(2, 2)
    made = replace_layers(layer, selected_layers(layer, WEIGHT_LAYERS, ()), nn.Sequential)
    assert isinstance(made, nn.Sequential)
    torch.testing.assert_close(made(torch.ones(1, 2)), layer(torch.ones(1, 2)))
