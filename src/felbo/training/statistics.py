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
        found = [buffer for norm in norms for buffer in norm.buffers(recurse=False)]
        # Means and variances [C], and counts []: each kind is copied by one call for all layers.
        self.vectors = [buffer for buffer in found if buffer.dim()]
        self.scalars = [buffer for buffer in found if not buffer.dim()]
        self.sizes = [len(vector) for vector in self.vectors]

    @property
    def buffers(self) -> list[Tensor]:
        """All of them."""
        return [*self.vectors, *self.scalars]

    def copy(self) -> list[Tensor]:
        """Return copies of the current values."""
        vectors = [torch.cat(self.vectors)] if self.vectors else []
        return vectors + ([torch.stack(self.scalars)] if self.scalars else [])

    @torch.no_grad()
    def put_back(self, values: Sequence[Tensor]) -> None:
        """Restore values returned by :meth:`copy`."""
        kept = list(values)
        copies = [*torch.split(kept.pop(0), self.sizes)] if self.vectors else []
        copies += [*kept.pop().unbind()] if self.scalars else []
        for buffer, copy in zip(self.buffers, copies, strict=True):
            buffer.copy_(copy)
