"""Multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import nn

from felbo._numbers import refuse_booleans
from felbo.errors import SettingError


def mlp(
    inputs: int,
    hidden: Sequence[int],
    classes: int,
    *,
    activation: Callable[[], nn.Module] = nn.ReLU,
) -> nn.Sequential:
    """Build a fully connected network with biases that returns logits ``[B, K]``.

    Inputs of any shape ``[B, ...]`` are flattened first, so images need no reshaping.

    Args:
        inputs: number of values per input.
        hidden: widths of the hidden layers; empty for a linear classifier.
        classes: K.
        activation: builds the non-linearity after each hidden layer.

    Example:
        >>> import torch
        >>> mlp(784, (50, 50), 10)(torch.zeros(3, 1, 28, 28)).shape
        torch.Size([3, 10])
    """
    refuse_booleans(inputs=inputs, classes=classes)
    widths = [inputs, *hidden, classes]
    if min(widths) < 1:
        raise SettingError(f"Every layer needs at least one unit, got widths {widths}.")
    layers: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), activation()]
    return nn.Sequential(*layers[:-1])
