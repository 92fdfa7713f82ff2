"""The digits, and a network that was trained on them."""

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from felbo.networks import mlp


@pytest.fixture(scope="session")
def digits():
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 8 - 1
    y = torch.tensor(labels)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    return (x[:1300], y[:1300]), (x[1300:], y[1300:])


@pytest.fixture(scope="session")
def trained(digits):
    """A perceptron trained by cross-entropy alone, until it is sure of itself."""
    torch.manual_seed(1)
    network = mlp(64, (50, 50), 10)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    (x, y), _ = digits
    for _ in range(250):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network.eval()
