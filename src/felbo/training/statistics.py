"""Save and restore the running statistics of normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from felbo.models.modes import NORMALISATION


class RunningStatistics:
    """Buffers of normalisation layers in training mode, which a forward pass updates.

    Args:
        model: with its modules in the modes of the forward pass.
    """

    def __init__(self, model: nn.Module) -> None:
        norms = [p for p in model.modules() if isinstance(p, NORMALISATION) and p.training]
        self.buffers = [buffer for norm in norms for buffer in norm.buffers(recurse=False)]

    def copy(self) -> list[Tensor]:
        """Return copies of the current values."""
        return [buffer.clone() for buffer in self.buffers]

    @torch.no_grad()
    def put_back(self, values: Sequence[Tensor]) -> None:
        """Restore values returned by :meth:`copy`."""
        for buffer, copy in zip(self.buffers, values, strict=True):
            buffer.copy_(copy)
