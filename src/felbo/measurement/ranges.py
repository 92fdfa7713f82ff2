"""Value range, mean and standard deviation of each channel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from felbo.errors import SettingError, ShapeError

# One number for all channels, or one for each of the C channels.
Bound = float | Sequence[float] | Tensor


class ChannelRange:
    """The lowest and highest value of each channel, given or read from data.

    Channels are the second axis: colours of images ``[B, C, H, W]``, columns of tables ``[B, D]``.

    Args:
        low: lowest value, one number or one per channel; ``None`` reads it from the data.
        high: highest value; given if and only if ``low`` is.

    Example:
        >>> import torch
        >>> low, high = ChannelRange()(torch.tensor([[0.0, 5.0], [1.0, 3.0]]))
        >>> low, high
        (tensor([[0., 3.]]), tensor([[1., 5.]]))
    """

    def __init__(self, low: Bound | None = None, high: Bound | None = None) -> None:
        if (low is None) != (high is None):
            raise SettingError("Give both low and high, or neither to take the range of the data.")
        self.bounds: tuple[Tensor, Tensor] | None = None
        if low is not None and high is not None:
            self.bounds = _as_bound(low, "low"), _as_bound(high, "high")
            if not bool((self.bounds[0] < self.bounds[1]).all()):
                raise SettingError(f"low must lie below high, got low = {low} and high = {high}.")

    def __call__(self, *data: Tensor) -> tuple[Tensor, Tensor]:
        """Return low and high ``[1, C, 1, ...]`` of all data ``[B, C, ...]`` together."""
        x = data[0]
        if self.bounds is None:
            axes = [axis for axis in range(x.dim()) if axis != 1]
            lows = [part.amin(axes, keepdim=True) for part in data]
            highs = [part.amax(axes, keepdim=True) for part in data]
            return torch.stack(lows).amin(0), torch.stack(highs).amax(0)
        low, high = (_per_channel(bound, x) for bound in self.bounds)
        return low, high


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each channel of ``x [B, C, ...]``, ``[1, C, 1, ...]``.

    The standard deviation is the biased one (divided by the number of values): zero for one value.
    """
    axes = [axis for axis in range(x.dim()) if axis != 1]
    # Several times faster than torch.var_mean along the first axis.
    mean = x.mean(axes, keepdim=True)
    return mean, (x - mean).square().mean(axes, keepdim=True).sqrt()


def _as_bound(value: Bound, name: str) -> Tensor:
    bound = torch.as_tensor(value, dtype=torch.float64)
    if bound.dim() > 1 or not bool(bound.isfinite().all()):
        raise SettingError(f"{name} must be a finite number or one per channel, got {value}.")
    return bound


def _per_channel(bound: Tensor, x: Tensor) -> Tensor:
    channels = x.shape[1]
    if bound.numel() not in (1, channels):
        raise ShapeError(
            f"low and high were given for {bound.numel()} channels, but the batch has {channels}: "
            f"its shape is {list(x.shape)}."
        )
    shape = (1, channels, *[1] * (x.dim() - 2))
    return bound.to(x).expand(channels).reshape(shape)
