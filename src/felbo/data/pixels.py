"""Convert uint8 images to floats: scale to a range, or normalise per channel."""

from collections.abc import Sequence

import torch
from torch import Tensor

from felbo.errors import InputTypeError, SettingError, ShapeError

__all__ = ["normalize", "scale"]


def scale(images: Tensor, low: float = -1.0, high: float = 1.0) -> Tensor:
    """Map bytes linearly to floats, 0 to `low` and 255 to `high`.

    x = low + (high − low) · byte / 255

    Args:
        images: uint8, any shape.
        low: Value of a black pixel.
        high: Value of a white pixel.

    Returns:
        float32, same shape.

    Example:
        >>> import torch
        >>> scale(torch.tensor([0, 255], dtype=torch.uint8))
        tensor([-1.,  1.])
    """
    _require_bytes(images)
    if not low < high:
        raise SettingError(f"Expected low < high, but got low={low} and high={high}.")
    return images.to(torch.float32).div_(255.0).mul_(high - low).add_(low)


def normalize(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Normalise each channel by the mean and standard deviation of the training set.

    x = (byte / 255 − mean_c) / std_c

    Args:
        images: uint8 [..., C, H, W].
        mean: C means of the pixels in [0, 1]; `felbo.data.REGISTRY[name].mean` has them.
        std: C standard deviations; `felbo.data.REGISTRY[name].std`.

    Returns:
        float32, same shape.

    Example:
        >>> import torch
        >>> white = torch.full((1, 1, 1, 1), 255, dtype=torch.uint8)
        >>> normalize(white, mean=[0.5], std=[0.25]).item()
        2.0
    """
    _require_bytes(images)
    channels = images.shape[-3] if images.ndim >= 3 else None
    if channels is None or not channels == len(mean) == len(std):
        raise ShapeError(
            f"Expected images [..., C, H, W] with C values of mean and std, but got shape "
            f"{tuple(images.shape)}, {len(mean)} means and {len(std)} standard deviations."
        )
    if not all(value > 0 for value in std):
        raise SettingError(f"Expected standard deviations above 0, but got {tuple(std)}.")
    centre = torch.tensor(mean, dtype=torch.float32, device=images.device).view(-1, 1, 1)
    spread = torch.tensor(std, dtype=torch.float32, device=images.device).view(-1, 1, 1)
    return images.to(torch.float32).div_(255.0).sub_(centre).div_(spread)


def _require_bytes(images: Tensor) -> None:
    # For floats, the range [0, 1] or [0, 255] would be a guess.
    if images.dtype != torch.uint8:
        raise InputTypeError(
            f"Expected uint8 images as felbo.data.load gives them, but got {images.dtype}; "
            "convert bytes once, before anything else."
        )
