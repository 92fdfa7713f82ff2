"""Softmax and cross-entropy that are fast for few classes on a CPU.

torch's kernels work along rows of classes, and ten classes do not fill a vector register. With
points and classes exchanged they work along the points instead, up to ten times faster.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

# Rows shorter than this are exchanged.
_SHORT = 16


def class_axis(logits: Tensor) -> int:
    """Return where the classes of ``logits [..., B, K]`` should lie: -1, or -2 to exchange axes."""
    short = logits.device.type == "cpu" and logits.shape[-1] < _SHORT
    return -2 if short else -1


def softmax(logits: Tensor) -> Tensor:
    """Return ``logits.softmax(-1)`` for ``logits [..., B, K]``."""
    if class_axis(logits) == -1:
        return logits.softmax(-1)
    return logits.transpose(-1, -2).softmax(-2).transpose(-1, -2).contiguous()


def cross_entropy(logits: Tensor, labels: Tensor, **options: Any) -> Tensor:
    """Return the mean cross-entropy of ``logits [M, B, K]`` and ``labels [B]``.

    Args:
        logits: draws.
        labels: class indices.
        options: further arguments of :func:`torch.nn.functional.cross_entropy`.
    """
    if class_axis(logits) == -1:
        return F.cross_entropy(logits.flatten(0, 1), labels.repeat(len(logits)), **options)
    return F.cross_entropy(logits.transpose(1, 2), labels.expand(len(logits), -1), **options)
