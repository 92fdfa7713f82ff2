"""Running statistics of normalisation, which a forward pass in training mode changes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from felbo.models.modes import NORMALISATION


class RunningStatistics:
    """The buffers that a forward pass changes: those of normalisation in training mode.

    Args:
        model: in the modes in which it will run.
    """

    def __init__(self, model: nn.Module) -> None:
        norms = [p for p in model.modules() if isinstance(p, NORMALISATION) and p.training]
        self.buffers = [buffer for norm in norms for buffer in norm.buffers(recurse=False)]

    def copy(self) -> list[Tensor]:
        """Return the present values."""
        return [buffer.clone() for buffer in self.buffers]

    @torch.no_grad()
    def put_back(self, values: Sequence[Tensor]) -> None:
        """Return to values of before."""
        for buffer, value in zip(self.buffers, values, strict=True):
            buffer.copy_(value)
