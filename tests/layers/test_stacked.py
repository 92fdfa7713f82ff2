import copy

import pytest
import torch
from torch import nn

from felbo.layers import StackedLinear, StackedMLP
from felbo.networks import mlp

EXACT = {"rtol": 0, "atol": 1e-12}


def networks(members=4, **options):
    return [mlp(6, (5, 7), 3, **options).double() for _ in range(members)]


@pytest.mark.parametrize("bias", [True, False])
def test_linear_layers_agree_with_their_members_on_shared_and_on_own_inputs(bias):
    layers = [nn.Linear(4, 5, bias=bias).double() for _ in range(3)]
    stacked = StackedLinear(layers)
    shared = torch.randn(7, 4, dtype=torch.float64)
    own = torch.randn(3, 7, 4, dtype=torch.float64)
    expected = torch.stack([layer(shared) for layer in layers])
    torch.testing.assert_close(stacked(shared), expected, **EXACT)
    expected = torch.stack([layer(x) for layer, x in zip(layers, own, strict=True)])
    torch.testing.assert_close(stacked(own), expected, **EXACT)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.GELU, nn.Softplus])
def test_networks_agree_with_their_members(activation):
    members = networks(activation=activation)
    x = torch.randn(9, 2, 3, dtype=torch.float64)
    expected = torch.stack([member(x) for member in members])
    torch.testing.assert_close(StackedMLP(members)(x), expected, **EXACT)


def test_gradients_agree_with_those_of_the_members():
    members = networks()
    stacked = StackedMLP(members)
    x = torch.randn(9, 6, dtype=torch.float64)
    stacked(x).square().sum().backward()
    for index, member in enumerate(members):
        member(x).square().sum().backward()
        for ours, theirs in zip(stacked.parameters(), member.parameters(), strict=True):
            torch.testing.assert_close(ours.grad[index], theirs.grad, **EXACT)


def test_member_is_a_copy_of_one_network():
    members = networks()
    stacked = StackedMLP(members)
    x = torch.randn(9, 6, dtype=torch.float64)
    taken = stacked.member(2)
    torch.testing.assert_close(taken(x), members[2](x), **EXACT)
    assert taken.state_dict().keys() == members[2].state_dict().keys()
    before = copy.deepcopy(stacked.state_dict())
    nn.init.zeros_(taken[1].weight)
    assert all(torch.equal(part, before[name]) for name, part in stacked.state_dict().items())


def test_stacking_copies_the_weights():
    members = networks()
    stacked = StackedMLP(members)
    before = copy.deepcopy(stacked.state_dict())
    nn.init.zeros_(members[0][1].weight)
    assert all(torch.equal(part, before[name]) for name, part in stacked.state_dict().items())


def test_inputs_that_nobody_flattens_are_refused():
    stacked = StackedMLP([nn.Sequential(nn.Linear(4, 3)) for _ in range(2)])
    with pytest.raises(ValueError, match=r"inputs \[B, D\].*got \[2, 5, 4\]"):
        stacked(torch.zeros(2, 5, 4))


def with_hook():
    network = mlp(4, (5,), 3)
    network[1].register_forward_pre_hook(lambda layer, inputs: (inputs[0] * 2,))
    return network


def frozen():
    network = mlp(4, (5,), 3)
    network[1].weight.requires_grad_(False)
    return network


def tied():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer)


class Doubling(nn.ReLU):
    def forward(self, x):
        return 2 * super().forward(x)


def test_perceptrons_are_accepted():
    assert StackedMLP.accepts(networks())
    assert StackedMLP.accepts([nn.Sequential(nn.Linear(4, 3, bias=False)) for _ in range(2)])


@pytest.mark.parametrize(
    "make",
    [
        with_hook,
        frozen,
        tied,
        lambda: nn.Linear(4, 3),
        lambda: nn.Sequential(nn.ReLU()),
        lambda: nn.Sequential(nn.Linear(4, 5), Doubling(), nn.Linear(5, 3)),
        lambda: nn.Sequential(nn.Linear(4, 5), nn.Dropout(), nn.Linear(5, 3)),
        lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)),
        lambda: nn.Sequential(nn.Linear(4, 5), nn.Softmax(-1), nn.Flatten()),
        lambda: nn.Sequential(nn.Flatten(2), nn.Linear(4, 3)),
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))),
        lambda: nn.Sequential(mlp(4, (5,), 3)),
    ],
)
def test_networks_that_would_lose_something_are_not_accepted(make):
    assert not StackedMLP.accepts([make(), make()])


def test_unlike_networks_and_shared_layers_are_not_accepted():
    assert not StackedMLP.accepts([mlp(4, (5,), 3), mlp(4, (6,), 3)])
    assert not StackedMLP.accepts([mlp(4, (5,), 3), mlp(4, (5,), 3, activation=nn.Tanh)])
    first = mlp(4, (5,), 3)
    assert not StackedMLP.accepts([first, nn.Sequential(*first)])
    assert StackedMLP.accepts([first, copy.deepcopy(first)])
