"""JPEG compression and pixelation."""

import io
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image
from torch import Generator, Tensor

from felbo.data.corruptions.filters import separable

__all__ = ["jpeg_compression", "pixelate"]

JPEG_QUALITY = (80, 65, 58, 50, 40)
PIXELATE_SCALE = (0.95, 0.9, 0.85, 0.75, 0.65)


def jpeg_compression(x: Tensor, severity: int, generator: Generator | None = None) -> Tensor:
    """Compress and decompress each image with Pillow, with its default subsampling. Not random.

    One image at a time: tiled into one large image, colours of neighbouring images would mix.
    """
    quality = JPEG_QUALITY[severity - 1]
    pictures = x.mul(255.0).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
    decoded = np.empty_like(pictures)
    for index, picture in enumerate(pictures):
        stream = io.BytesIO()
        Image.fromarray(picture).save(stream, format="JPEG", quality=quality)
        decoded[index] = np.asarray(Image.open(stream))
    return torch.from_numpy(decoded).permute(0, 3, 1, 2) / 255.0


def pixelate(x: Tensor, severity: int, generator: Generator | None = None) -> Tensor:
    """Shrink to ⌊size · c⌋ pixels and enlarge again, both with a box filter. Not random.

    Values are rounded to bytes after each axis, as image libraries that work in bytes do, which
    makes the result the same as Pillow's.
    """
    height, width = x.shape[-2:]
    scale = PIXELATE_SCALE[severity - 1]
    small = max(1, int(height * scale)), max(1, int(width * scale))
    values = _box(x * 255.0, small, round_half_up)
    return _box(values, (height, width), round_half_up) / 255.0


def round_half_up(values: Tensor) -> Tensor:
    """⌊v + ½⌋; torch rounds halves to even."""
    return (values + 0.5).floor_()


def _box(x: Tensor, size: tuple[int, int], rounded: Callable[[Tensor], Tensor]) -> Tensor:
    height, width = x.shape[-2:]
    narrow = rounded(separable(x, torch.eye(height), box_matrix(width, size[1])))
    return rounded(separable(narrow, box_matrix(height, size[0]), torch.eye(size[1])))


def box_matrix(source: int, target: int) -> Tensor:
    """Matrix [target, source]: the mean of the source pixels whose centres a target pixel covers.

    When enlarging, a target pixel covers one centre at most and takes the pixel that it lies in.

    Example:
        >>> box_matrix(4, 2)
        tensor([[0.5000, 0.5000, 0.0000, 0.0000],
                [0.0000, 0.0000, 0.5000, 0.5000]])
    """
    scale = source / target
    width = max(scale, 1.0)
    centre = (torch.arange(target, dtype=torch.float64) + 0.5) * scale
    distance = (torch.arange(source, dtype=torch.float64) + 0.5) - centre.unsqueeze(1)
    covered = ((distance > -0.5 * width) & (distance <= 0.5 * width)).double()
    return (covered / covered.sum(1, keepdim=True)).float()
