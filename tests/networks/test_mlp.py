import pytest
import torch
from torch import nn

from felbo.networks import mlp


def test_is_the_composition_of_its_layers():
    network = mlp(6, (5, 4), 3).double()
    x = torch.randn(7, 2, 3, dtype=torch.float64)
    (w1, b1), (w2, b2), (w3, b3) = zip(*[iter(network.parameters())] * 2, strict=True)
    hidden = torch.relu(torch.relu(x.reshape(7, 6) @ w1.T + b1) @ w2.T + b2)
    torch.testing.assert_close(network(x), hidden @ w3.T + b3)


def test_widths_activation_and_parameter_count():
    network = mlp(784, (50, 50), 10, activation=nn.Tanh)
    assert [type(layer) for layer in network] == [
        nn.Flatten,
        nn.Linear,
        nn.Tanh,
        nn.Linear,
        nn.Tanh,
        nn.Linear,
    ]
    assert sum(p.numel() for p in network.parameters()) == 784 * 50 + 50 + 2550 + 510


def test_without_hidden_layers_it_is_linear():
    network = mlp(2, (), 3)
    a, b = torch.randn(4, 2), torch.randn(4, 2)
    offset = network(torch.zeros(4, 2))
    torch.testing.assert_close(network(a + b) - offset, network(a) + network(b) - 2 * offset)


@pytest.mark.parametrize("widths", [(0, (5,), 3), (2, (0,), 3), (2, (5,), 0)])
def test_empty_layers_are_refused(widths):
    with pytest.raises(ValueError, match="at least one unit"):
        mlp(*widths)
