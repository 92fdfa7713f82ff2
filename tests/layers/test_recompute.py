import copy

import torch
from torch import nn

from felbo.layers import recomputed


def test_values_gradients_and_running_statistics_are_those_of_a_plain_call() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.3), nn.Flatten(), nn.Linear(144, 3)
    ).double()
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
