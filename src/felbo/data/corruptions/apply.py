"""Corrupt a batch of images."""

from collections.abc import Callable, Mapping
from os import PathLike

import torch
from torch import Generator, Tensor

from felbo.data.corruptions import blur, colour, digital, elastic, noise, spatter, weather
from felbo.data.corruptions.frost import frost, load_textures
from felbo.data.corruptions.names import check_names
from felbo.errors import InputTypeError, SettingError, ShapeError

__all__ = ["corrupt"]

SMALLEST_SIDE = 8
# Maps float32 images [N, 3, H, W] in [0, 1], a severity and a generator to floats, not yet clipped.
Corruption = Callable[[Tensor, int, Generator | None], Tensor]
# Without frost, which needs its textures as an argument.
FUNCTIONS: Mapping[str, Corruption] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": blur.glass_blur,
    "motion_blur": blur.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "snow": weather.snow,
    "fog": weather.fog,
    "brightness": colour.brightness,
    "contrast": colour.contrast,
    "elastic_transform": elastic.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg_compression,
    "speckle_noise": noise.speckle_noise,
    "gaussian_blur": blur.gaussian_blur,
    "spatter": spatter.spatter,
    "saturate": colour.saturate,
}


def corrupt(
    images: Tensor,
    corruption: str,
    severity: int,
    *,
    generator: Generator | None = None,
    root: str | PathLike[str] | None = None,
) -> Tensor:
    """Corrupt images as in CIFAR-10-C, with independent random numbers for each image.

    The constants are those of the benchmark for 32 × 32 pixels. Lengths are in pixels, except for
    the elastic transform, whose constants are fractions of the shorter side. As in the benchmark,
    results are truncated to bytes, not rounded. Everything is computed on the CPU, so that a seed
    gives the same images on every device.

    Args:
        images: uint8 [N, 3, H, W], at least 8 × 8 pixels.
        corruption: One of `felbo.data.CORRUPTIONS`.
        severity: 1 to 5.
        generator: Source of the random numbers, on the CPU; `None` is torch's global one.
        root: The data root, for the textures of frost.

    Returns:
        uint8, same shape and device.

    Example:
        >>> grey = torch.full((2, 3, 32, 32), 100, dtype=torch.uint8)
        >>> bright = corrupt(grey, "brightness", 2)  # adds 0.1 · 255 = 25.5
        >>> bright.unique()
        tensor([125], dtype=torch.uint8)
        >>> noisy = corrupt(grey, "gaussian_noise", 5, generator=torch.Generator().manual_seed(0))
        >>> round(noisy.float().std().item() / 255, 2)
        0.1
    """
    check_names(corruption, severity)
    _check_images(images)
    if generator is not None and generator.device.type != "cpu":
        raise SettingError(f"Expected a generator on the CPU, but got one on {generator.device}.")
    if len(images) == 0:
        return images.clone()
    x = images.cpu().to(torch.float32) / 255.0
    with torch.no_grad():
        if corruption == "frost":
            corrupted = frost(x, severity, generator, load_textures(root))
        else:
            corrupted = FUNCTIONS[corruption](x, severity, generator)
    return _to_bytes(corrupted).contiguous().to(images.device)


def _to_bytes(x: Tensor) -> Tensor:
    # float32 may give a whole byte slightly too small; 2⁻¹² keeps truncation from lowering it.
    return x.mul(255.0).clamp_(0.0, 255.0).add_(2**-12).to(torch.uint8)


def _check_images(images: Tensor) -> None:
    if images.dtype != torch.uint8:
        raise InputTypeError(
            f"Expected uint8 images as felbo.data.load gives them, but got {images.dtype}; "
            "corrupt bytes first and scale or normalise afterwards."
        )
    if images.ndim != 4 or images.shape[1] != 3 or min(images.shape[2:]) < SMALLEST_SIDE:
        raise ShapeError(
            f"Expected images [N, 3, H, W] of at least {SMALLEST_SIDE} × {SMALLEST_SIDE} pixels, "
            f"but got shape {tuple(images.shape)}."
        )
