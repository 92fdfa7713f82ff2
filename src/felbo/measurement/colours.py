"""Monochrome images and noise in the value range of the batch."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from felbo.errors import SettingError
from felbo.measurement.draws import integers, normal, uniform
from felbo.measurement.itemwise import DrawnSet, ImageSet
from felbo.measurement.ranges import Bound, ChannelRange, moments


class Monochrome(ImageSet):
    """Images of one colour.

    Args:
        colours: ``"range"`` draws each channel uniformly between its lowest and highest value,
            ``"pixels"`` uses the colour of a random pixel of the batch.
        low: lowest value, one number or one per channel; ``None`` is that of the batch.
        high: highest value, likewise.
        generator: source of random numbers; ``None`` is torch's global generator.

    Example:
        >>> import torch
        >>> Monochrome()(torch.rand(4, 3, 32, 32)).std((-2, -1)).max()
        tensor(0.)
    """

    def __init__(
        self,
        colours: Literal["range", "pixels"] = "range",
        low: Bound | None = None,
        high: Bound | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(generator)
        if colours not in ("range", "pixels"):
            raise SettingError(f"colours must be 'range' or 'pixels', got {colours!r}.")
        if colours == "pixels" and low is not None:
            raise SettingError(
                "low and high are for colours='range'; pixels have their own values."
            )
        self.computes = colours == "range"
        self.colours = colours
        self.range = ChannelRange(low, high)

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return images of one colour each ``[S, C, H, W]``."""
        count, (channels, height, width) = len(rows), x.shape[1:]
        if self.colours == "range":
            low, high = self.range(x)
            colour = low + (high - low) * uniform((count, channels, 1, 1), x, self.generator)
        else:
            sizes = (len(x), height, width)
            item, row, column = (
                integers(0, size - 1, (count,), x, self.generator) for size in sizes
            )
            colour = x[item, :, row, column][:, :, None, None]
        return colour.expand(-1, -1, height, width).clone()


class Noise(DrawnSet):
    """Independent random values in the shape of the batch.

    Channels are the second axis: colours of images ``[B, C, H, W]``, columns of tables ``[B, D]``.
    A table of one row has zero range and deviation; its row is returned.

    Args:
        kind: ``"uniform"`` between the lowest and highest value of each channel, or ``"gaussian"``
            with the mean and standard deviation of each channel of the batch.
        low: lowest value for uniform noise, one number or one per channel; ``None`` is that of the
            batch.
        high: highest value, likewise.
        generator: source of random numbers; ``None`` is torch's global generator.

    Example:
        >>> import torch
        >>> Noise("gaussian")(torch.rand(4, 3, 32, 32)).shape
        torch.Size([4, 3, 32, 32])
    """

    def __init__(
        self,
        kind: Literal["uniform", "gaussian"] = "uniform",
        low: Bound | None = None,
        high: Bound | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(generator)
        if kind not in ("uniform", "gaussian"):
            raise SettingError(f"kind must be 'uniform' or 'gaussian', got {kind!r}.")
        if kind == "gaussian" and low is not None:
            raise SettingError("low and high are for uniform noise; Gaussian noise has no range.")
        self.kind = kind
        self.range = ChannelRange(low, high)

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return noise ``[S, C, ...]``."""
        shape = (len(rows), *x.shape[1:])
        if self.kind == "gaussian":
            mean, deviation = moments(x)
            return mean + deviation * normal(shape, x, self.generator)
        low, high = self.range(x)
        return low + (high - low) * uniform(shape, x, self.generator)
