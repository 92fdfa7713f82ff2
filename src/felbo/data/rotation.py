"""Rotate a batch of images by one angle."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from felbo.errors import InputTypeError, SettingError, ShapeError

__all__ = ["rotate"]


def rotate(
    images: Tensor,
    degrees: float,
    fill: float = 0.0,
    mode: Literal["bilinear", "nearest"] = "bilinear",
) -> Tensor:
    """Rotate images counter-clockwise about their centre, keeping their size.

    The value at offset (x, y) from the centre, y pointing down, is read at
    (x cos φ − y sin φ, x sin φ + y cos φ). What lies outside the image has the value `fill`. Whole
    turns and half turns, and quarter turns of square images, move pixels without interpolation and
    equal `torch.rot90` exactly.

    Args:
        images: Floats [B, C, H, W] or [B, H, W].
        degrees: The angle φ; positive is counter-clockwise, as an image is viewed.
        fill: Value outside the image, in the images' own units (−1 for black after `scale`).
        mode: Interpolation between pixels.

    Returns:
        The rotated images; same shape and type, differentiable in `images`.

    Example:
        >>> import torch
        >>> rotate(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 90)
        tensor([[[2., 4.],
                 [1., 3.]]])
    """
    _check(images, degrees, fill, mode)
    height, width = images.shape[-2:]
    quarter_turns, rest = divmod(degrees, 90.0)
    if rest == 0.0 and (height == width or quarter_turns % 2 == 0):
        return torch.rot90(images, int(quarter_turns % 4), dims=(-2, -1))
    grid = _grid(images, degrees)
    # One grid for all images: they become the channels of a single image.
    stacked = images.reshape(1, math.prod(images.shape[:-2]), height, width)
    rotated = F.grid_sample(stacked, grid, mode=mode, padding_mode="zeros", align_corners=False)
    if fill != 0.0:
        inside = F.grid_sample(
            images.new_ones(1, 1, height, width), grid, mode=mode, align_corners=False
        )
        rotated = rotated + fill * (1.0 - inside)
    return rotated.reshape(images.shape)


def _grid(images: Tensor, degrees: float) -> Tensor:
    """Sampling grid [1, H, W, 2] for `F.grid_sample`, in units of half the width and height."""
    height, width = images.shape[-2:]
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    theta = images.new_tensor([[cos, -sin * height / width, 0.0], [sin * width / height, cos, 0.0]])
    return F.affine_grid(theta.unsqueeze(0), [1, 1, height, width], align_corners=False)


def _check(images: Tensor, degrees: float, fill: float, mode: str) -> None:
    if not images.is_floating_point():
        raise InputTypeError(
            f"Expected floating-point images, but got {images.dtype}; "
            "convert bytes with felbo.data.scale or felbo.data.normalize first."
        )
    if images.ndim not in (3, 4):
        raise ShapeError(
            f"Expected images [B, C, H, W] or [B, H, W], but got shape {tuple(images.shape)}."
        )
    if not (math.isfinite(degrees) and math.isfinite(fill)):
        raise SettingError(f"Expected finite degrees and fill, but got {degrees} and {fill}.")
    if mode not in ("bilinear", "nearest"):
        raise SettingError(f"Expected mode 'bilinear' or 'nearest', but got {mode!r}.")
