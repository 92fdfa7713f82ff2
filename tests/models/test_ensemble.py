import pytest
import torch
from torch import nn

from felbo import Ensemble
from felbo.layers import StackedMLP
from felbo.networks import mlp

EXACT = {"rtol": 0, "atol": 1e-12}


class TwoHeads(nn.Module):
    """A network that is no sequence of layers."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        return self.left(x) * torch.sigmoid(self.right(x))


def perceptron():
    return mlp(4, (5, 6), 3).double()


def two_heads():
    return TwoHeads().double()


def inputs():
    return torch.randn(7, 4, dtype=torch.float64)


@pytest.mark.parametrize("factory", [perceptron, two_heads])
def test_draw_m_is_member_m(factory):
    networks = [factory() for _ in range(4)]
    model, x = Ensemble.from_networks(networks), inputs()
    expected = torch.stack([network(x) for network in networks])
    torch.testing.assert_close(model(x), expected, **EXACT)
    members = torch.stack([model.member(m)(x) for m in range(4)])
    torch.testing.assert_close(members, expected, **EXACT)


def test_perceptrons_are_stacked_and_other_networks_are_not():
    assert isinstance(Ensemble(perceptron, 3).members, StackedMLP)
    assert isinstance(Ensemble(two_heads, 3).members, nn.ModuleList)


@pytest.mark.parametrize("factory", [perceptron, two_heads])
def test_a_step_moves_each_member_as_if_it_were_alone(factory):
    networks = [factory() for _ in range(3)]
    model, x = Ensemble.from_networks(networks), inputs()
    y = torch.arange(7) % 3

    def step(module, loss):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        loss.backward()
        optimizer.step()

    step(model, sum(nn.functional.cross_entropy(logits, y) for logits in model(x)))
    for m, network in enumerate(networks):
        step(network, nn.functional.cross_entropy(network(x), y))
        torch.testing.assert_close(model.member(m)(x), network(x), **EXACT)


def test_members_start_apart():
    model, x = Ensemble(perceptron, members=3), inputs()
    first, second, third = model(x)
    assert not torch.allclose(first, second)
    assert not torch.allclose(second, third)


def test_members_and_copies_share_no_memory():
    networks = [two_heads() for _ in range(2)]
    model, x = Ensemble.from_networks(networks), inputs()
    before = model(x)
    for module in (*networks, model.member(0)):
        for parameter in module.parameters():
            nn.init.zeros_(parameter)
    assert torch.equal(model(x), before)


def test_the_same_network_twice_is_refused():
    network = perceptron()
    with pytest.raises(ValueError, match="same network twice"):
        Ensemble(lambda: network, members=2)
    assert len(Ensemble(lambda: network, members=1)(inputs())) == 1
    # Copies are taken here, so equal starts are the caller's choice.
    assert len(Ensemble.from_networks([network, network])(inputs())) == 2


def test_the_number_of_draws_is_the_number_of_members_in_both_modes():
    model, x = Ensemble(perceptron, members=3), inputs()
    assert len(model(x)) == len(model.eval()(x)) == len(model(x, num_samples=3)) == 3
    with pytest.raises(ValueError, match=r"3 members .* got num_samples=2"):
        model(x, num_samples=2)


def test_impossible_sizes_and_indices_are_refused():
    with pytest.raises(ValueError, match="members must be a whole number of at least 1, got 0"):
        Ensemble(perceptron, members=0)
    with pytest.raises(ValueError, match="at least 1 network"):
        Ensemble.from_networks([])
    with pytest.raises(IndexError, match="0 to 1, got 2"):
        Ensemble(perceptron, members=2).member(2)
    with pytest.raises(IndexError, match="got -1"):
        Ensemble(two_heads, members=2).member(-1)


def test_low_memory_gives_the_same_gradients() -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))

    torch.manual_seed(0)
    plain = Ensemble(build, members=3).double()
    torch.manual_seed(0)
    frugal = Ensemble(build, members=3, low_memory=True).double()
    x = torch.randn(7, 3, dtype=torch.float64)
    for model in (plain, frugal):
        model(x).square().sum().backward()
    for ours, theirs in zip(frugal.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-12)
