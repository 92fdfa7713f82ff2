"""Save and restore the running statistics of normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

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
        # Their bytes, so that all of them are copied by one call whatever their dtypes are.
        views = sorted(map(_bytes, self.buffers), key=_kind)
        self._views = [list(group) for _, group in groupby(views, key=_kind)]

    def copy(self) -> list[Tensor]:
        """Return copies of the current values."""
        return [torch.cat(group) for group in self._views]

    @torch.no_grad()
    def put_back(self, values: Sequence[Tensor]) -> None:
        """Restore values returned by :meth:`copy`."""
        for group, copies in zip(self._views, values, strict=True):
            for view, copy in zip(group, torch.split(copies, [len(v) for v in group]), strict=True):
                view.copy_(copy)


def _bytes(buffer: Tensor) -> Tensor:
    """Return a view of a buffer as bytes, or the buffer itself if it is not contiguous."""
    return buffer.view(-1).view(torch.uint8) if buffer.is_contiguous() else buffer


def _kind(view: Tensor) -> str:
    """Return a key that is the same for tensors which can be concatenated."""
    return f"{view.dtype} {view.device} {view.shape[1:]}"
