"""Dropout that stays active in evaluation, with a mask per item or per call."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from felbo._numbers import refuse_booleans
from felbo.errors import SettingError

MaskSharing = Literal["item", "draw"]


class ActiveDropout(nn.Module):
    """Multiply by ``Bernoulli(1 − rate) / (1 − rate)``, in training and in evaluation alike.

    Args:
        rate: probability that a value is set to zero, in [0, 1).
        mask: ``"item"`` draws a mask for every item of the batch, ``"draw"`` one mask for the whole
            batch, so that one call evaluates one function.
        whole_maps: drop whole channels of ``[B, C, ...]``, as ``nn.Dropout2d`` does.
    """

    def __init__(self, rate: float, mask: MaskSharing = "item", whole_maps: bool = False) -> None:
        super().__init__()
        refuse_booleans(rate=rate)
        if not 0.0 <= rate < 1.0:
            raise SettingError(f"Dropout rate must lie in [0, 1), got {rate}.")
        if mask not in ("item", "draw"):
            raise SettingError(f"mask must be 'item' or 'draw', got {mask!r}.")
        self.rate = rate
        self.mask: MaskSharing = mask
        self.whole_maps = whole_maps

    # The name of the argument is that of nn.Dropout, which may be called by it.
    def forward(self, input: Tensor) -> Tensor:
        """Drop values of ``input [B, ...]``."""
        if self.rate == 0.0:
            return input
        part = [slice(None)] * input.dim()
        if self.mask == "draw":
            part[0] = slice(1)
        if self.whole_maps:
            part[2:] = [slice(1)] * len(part[2:])
        # In the memory format of the input: channels_last times contiguous is ten times slower. On
        # a CPU bernoulli_ takes twice as long as uniform numbers and a comparison.
        uniform = torch.rand_like(input[tuple(part)], dtype=torch.get_default_dtype())
        return input * (uniform >= self.rate).to(input.dtype).div_(1.0 - self.rate)

    def extra_repr(self) -> str:
        """Show the settings when the network is printed."""
        return f"rate={self.rate}, mask={self.mask!r}, whole_maps={self.whole_maps}"
