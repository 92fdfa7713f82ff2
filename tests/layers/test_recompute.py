import copy

import pytest
import torch
from torch import nn

from felbo.layers import recomputed


class Whole(nn.Module):
    """A network that does not show its parts."""

    def __init__(self, parts: nn.Module) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.parts(x)
        return result


def chain() -> nn.Sequential:
    block = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.3))
    return nn.Sequential(block, nn.ReLU(), nn.Flatten(), nn.Linear(144, 3), nn.BatchNorm1d(3))


@pytest.mark.parametrize("wrap", [lambda network: network, Whole])
def test_values_gradients_and_running_statistics_are_those_of_a_plain_call(wrap) -> None:
    torch.manual_seed(0)
    plain = wrap(chain()).double()
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


@pytest.mark.parametrize(
    "register",
    [
        "register_forward_pre_hook",
        "register_forward_hook",
        "register_full_backward_pre_hook",
        "register_full_backward_hook",
    ],
)
def test_hooks_of_a_chain_are_called(register) -> None:
    network, called = chain(), []
    getattr(network, register)(lambda *_: called.append(register))
    recomputed(network, torch.randn(5, 1, 8, 8, requires_grad=True)).sum().backward()
    assert called


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


def test_a_link_that_overwrites_its_input_unannounced_is_refused() -> None:
    class Overwriting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2.0)

    with pytest.raises(RuntimeError, match="Overwriting overwrites its input"):
        recomputed(nn.Sequential(nn.Linear(3, 3), Overwriting()), torch.randn(2, 3))


def test_links_may_pass_on_more_than_a_tensor() -> None:
    class Last(nn.Module):
        def forward(self, results: tuple[torch.Tensor, object]) -> torch.Tensor:
            return results[0][:, -1]

    network = nn.Sequential(nn.LSTM(3, 8, batch_first=True), Last(), nn.Linear(8, 2))
    x = torch.randn(2, 5, 3)
    found = recomputed(network, x)
    torch.testing.assert_close(found, network(x))
    found.sum().backward()


def test_a_chain_calls_its_growing_links_three_times_and_the_others_twice() -> None:
    network = nn.Sequential(nn.Linear(4, 50), nn.Linear(50, 50), nn.Linear(50, 6), nn.Linear(6, 2))
    calls = [0] * len(network)
    for index, link in enumerate(network):

        def count(*_: object, index: int = index) -> None:
            calls[index] += 1

        link.register_forward_pre_hook(count)
    recomputed(network, torch.randn(3, 4)).sum().backward()
    assert calls == [3, 3, 3, 2]
