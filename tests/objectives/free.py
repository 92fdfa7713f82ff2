"""Logits that are parameters themselves: what the tests of the bound run on."""

import torch
from torch import nn

from felbo import StochasticClassifier


class FreeLogits(StochasticClassifier):
    """Logits ``[M, B, K]``, whatever the input."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, x, num_samples=None):
        return self.logits


def correlated(draws=5, size=6, classes=4, dtype=torch.float64):
    """Logits ``[M, S, K]`` whose draws lie further apart from point to point."""
    shared = 2 * torch.randn(1, size, classes, dtype=torch.float64)
    apart = torch.linspace(0.05, 2.0, size, dtype=torch.float64)[:, None]
    return (shared + apart * torch.randn(draws, size, classes, dtype=torch.float64)).to(dtype)


def inputs(size):
    """Points that nobody looks at."""
    return torch.zeros(size, 1)
