"""One rank-1 layer: its equation, its members, its factors and their divergence."""

import copy

import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence
from torch.func import functional_call
from torch.nn.functional import softplus

from felbo.layers import Rank1Layer

LAYERS = {
    "linear": (nn.Linear(4, 6), (4,)),
    "linear without bias": (nn.Linear(4, 6, bias=False), (4,)),
    "linear on sequences": (nn.Linear(4, 6), (5, 4)),
    "conv1d": (nn.Conv1d(4, 6, 3, stride=2), (4, 9)),
    "conv2d": (nn.Conv2d(4, 6, 3, stride=2, padding=1), (4, 9, 9)),
    "groups": (nn.Conv2d(4, 6, 3, groups=2, dilation=2), (4, 9, 9)),
    "circular": (nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular", bias=False), (4, 9, 9)),
}


def member_weight(layer, u, v):
    """W ∘ (u vᵀ), built entry by entry."""
    weight = layer.weight.detach().clone()
    outputs, inputs = weight.shape[:2]
    groups = getattr(layer, "groups", 1)
    for o in range(outputs):
        first = o // (outputs // groups) * inputs
        for i in range(inputs):
            weight[o, i] *= u[o] * v[first + i]
    return weight


@torch.no_grad()
@pytest.mark.parametrize("kind", LAYERS)
def test_item_i_has_the_weight_of_member_i_modulo_members(kind):
    torch.manual_seed(0)
    layer, shape = copy.deepcopy(LAYERS[kind])
    rank1 = Rank1Layer(layer, members=3, rho=-40.0)
    for parameter in (rank1.input.mean, rank1.output.mean, rank1.bias):
        if parameter is not None:
            nn.init.normal_(parameter)
    x = torch.randn(7, *shape)
    y = rank1(x)
    for i in range(7):
        member = i % 3
        state = {
            "weight": member_weight(layer, rank1.output.mean[member], rank1.input.mean[member])
        }
        if rank1.bias is not None:
            state["bias"] = rank1.bias[member]
        expected = functional_call(layer, state, (x[i : i + 1],))
        torch.testing.assert_close(y[i : i + 1], expected, rtol=1e-4, atol=1e-5)


def test_weight_is_shared_and_the_layer_keeps_its_bias():
    layer = nn.Linear(3, 2)
    rank1 = Rank1Layer(layer, 2)
    assert rank1.shared.weight is layer.weight
    assert layer.bias is not None
    assert rank1.shared.bias is None
    torch.testing.assert_close(rank1.bias, layer.bias.detach().repeat(2, 1))


@torch.no_grad()
def test_factors_have_the_given_moments():
    torch.manual_seed(1)
    factors = Rank1Layer(nn.Linear(4, 2), 3, rho=0.5).input
    nn.init.normal_(factors.mean)
    count = 4000
    z = torch.stack([factors() for _ in range(count)]).sub(factors.mean) / softplus(factors.rho)
    assert (z.mean(0).abs() < 4.5 / count**0.5).all()
    assert ((z.var(0) - 1).abs() < 4.5 * (2 / count) ** 0.5).all()


def test_items_of_a_member_share_one_draw():
    torch.manual_seed(2)
    rank1 = Rank1Layer(nn.Linear(3, 2), 2, rho=1.0)
    y = rank1(torch.ones(6, 3))
    torch.testing.assert_close(y[0::2], y[0].expand(3, 2))
    torch.testing.assert_close(y[1::2], y[1].expand(3, 2))
    assert not torch.allclose(y[0], y[1])


def test_divergence_is_the_mean_over_members_of_the_sum_over_factors():
    torch.manual_seed(3)
    rank1 = Rank1Layer(nn.Linear(4, 2), 3).double()
    for factors in (rank1.input, rank1.output):
        nn.init.normal_(factors.mean)
        nn.init.normal_(factors.rho)
    per_member = [
        sum(
            kl_divergence(Normal(factors.mean[m], softplus(factors.rho[m])), Normal(1.0, 0.3)).sum()
            for factors in (rank1.input, rank1.output)
        )
        for m in range(3)
    ]
    torch.testing.assert_close(rank1.kl(0.3), torch.stack(per_member).mean())


def test_inputs_without_a_batch_axis_are_refused():
    with pytest.raises(ValueError, match=r"4 axes, got shape \(3, 6, 6\)"):
        Rank1Layer(nn.Conv2d(3, 5, 3), 2)(torch.zeros(3, 6, 6))
    with pytest.raises(ValueError, match=r"\[B, ..., features\], got shape \(3,\)"):
        Rank1Layer(nn.Linear(3, 5), 2)(torch.zeros(3))


def test_other_layers_are_refused():
    with pytest.raises(TypeError, match="got ConvTranspose2d"):
        Rank1Layer(nn.ConvTranspose2d(3, 5, 3), 2)


def test_no_members_are_refused():
    with pytest.raises(ValueError, match="members must be a whole number of at least 1"):
        Rank1Layer(nn.Linear(3, 5), 0)
