import copy

import pytest
import torch
from torch import nn

from felbo.layers import recomputed
from felbo.layers.hooks import has_hooks


def chain() -> nn.Sequential:
    block = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.3))
    return nn.Sequential(block, nn.ReLU(), nn.Flatten(), nn.Linear(144, 3), nn.BatchNorm1d(3))


def test_values_gradients_and_running_statistics_are_those_of_a_plain_call() -> None:
    torch.manual_seed(0)
    plain = chain().double()
    checkpointed = copy.deepcopy(plain)
    x = torch.randn(5, 1, 8, 8, dtype=torch.float64)
    for step in range(3):
        torch.manual_seed(step)
        expected = plain(x)
        expected.square().sum().backward()
        torch.manual_seed(step)
        result = recomputed(checkpointed, x)
        result.square().sum().backward()
        torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(checkpointed.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(checkpointed.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("activation", [nn.SiLU, nn.ELU, nn.ReLU])
def test_gradients_with_layers_that_overwrite_their_input(activation) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(4, 50), nn.BatchNorm1d(50), activation(inplace=True), nn.Linear(50, 3)
    ).double()
    x = torch.randn(6, 4, dtype=torch.float64)
    parameters = list(network.parameters())
    expected = torch.autograd.grad(network(x).square().sum(), parameters)
    found = torch.autograd.grad(recomputed(network, x).square().sum(), parameters)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_network_that_overwrites_its_input_is_recomputed_from_the_input() -> None:
    class Overwriting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2.0)

    network = nn.Sequential(Overwriting(), nn.Linear(3, 2)).double()
    x = torch.randn(4, 3, dtype=torch.float64)
    before = x.clone()
    recomputed(network, x).square().sum().backward()
    found = network[1].weight.grad
    (expected,) = torch.autograd.grad(network(x.clone()).square().sum(), network[1].weight)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(x, before)


def test_keyword_arguments_and_outputs_that_are_no_tensors() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(3, 2), nn.Linear(4, 2)

        def forward(self, *, left: torch.Tensor, right: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"sum": self.left(left) + self.right(right)}

    network, left, right = Two(), torch.randn(5, 3), torch.randn(5, 4)
    found = recomputed(network, left=left, right=right)["sum"]
    torch.testing.assert_close(found, network(left=left, right=right)["sum"])
    found.sum().backward()
    torch.testing.assert_close(network.left.weight.grad, left.sum(0).expand(2, 3))


def test_the_first_half_of_a_sequence_runs_three_times_and_the_rest_twice() -> None:
    network, calls = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5))), [0] * 5
    for index, layer in enumerate(network):
        layer.register_forward_pre_hook(
            lambda *_, index=index: calls.__setitem__(index, calls[index] + 1)
        )
    recomputed(network, torch.randn(3, 4)).sum().backward()
    assert calls == [3, 3, 2, 2, 2]


@pytest.mark.parametrize(
    "register",
    [
        "register_forward_pre_hook",
        "register_forward_hook",
        "register_full_backward_pre_hook",
        "register_full_backward_hook",
    ],
)
def test_hooks_of_a_sequence_are_called(register) -> None:
    network, called = chain(), []
    getattr(network, register)(lambda *_: called.append(register))
    assert has_hooks(network)
    recomputed(network, torch.randn(5, 1, 8, 8, requires_grad=True)).sum().backward()
    assert called
    assert not has_hooks(chain())
    assert not has_hooks(network[0])
