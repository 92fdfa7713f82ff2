"""Fog and snow."""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from felbo.data.corruptions.blur import smear
from felbo.data.corruptions.filters import zoom

__all__ = ["fog", "plasma", "snow"]

FOG_DENSITY_AND_DECAY = ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))
# Weights of red, green and blue in the luma of ITU-R BT.601.
LUMA = (0.299, 0.587, 0.114)


class _Snow(NamedTuple):
    """Flakes: N(mean, std), enlarged, thresholded, motion-blurred; `kept`: weight of the image."""

    mean: float
    std: float
    zoom: float
    threshold: float
    radius: int
    sigma: float
    kept: float


SNOW = (
    _Snow(0.1, 0.2, 1.0, 0.6, 8, 3.0, 0.95),
    _Snow(0.1, 0.2, 1.0, 0.5, 10, 4.0, 0.9),
    _Snow(0.15, 0.3, 1.75, 0.55, 10, 4.0, 0.9),
    _Snow(0.25, 0.3, 2.25, 0.6, 12, 6.0, 0.85),
    _Snow(0.3, 0.3, 1.25, 0.65, 14, 12.0, 0.8),
)


def fog(x: Tensor, severity: int, generator: Generator | None) -> Tensor:
    """(x + d p) M / (M + d): a haze p of density d, M the brightest value of the image."""
    density, decay = FOG_DENSITY_AND_DECAY[severity - 1]
    height, width = x.shape[-2:]
    size = 1 << (max(height, width) - 1).bit_length()  # the next power of two
    haze = plasma(len(x), size, decay, generator)[:, None, :height, :width]
    brightest = x.amax((1, 2, 3), keepdim=True)
    return (x + density * haze) * brightest / (brightest + density)


def plasma(count: int, size: int, decay: float, generator: Generator | None) -> Tensor:
    """Random landscapes by midpoint displacement on a torus (diamond-square), in [0, 1].

    Starting from a single point, the middle of each square, then that of each edge, becomes the
    mean of its four neighbours plus a uniform displacement. Its amplitude falls by decay² with each
    halving of the grid: the published code multiplies a uniform number of width w by w once more.

    Args:
        count: Number of landscapes N.
        size: Their side S, a power of two.
        decay: How fast details fade; 1 is white noise, larger is smoother.
        generator: Source of the displacements.

    Returns:
        [N, S, S]; the lowest point of each is 0 and its highest is 1.
    """
    height = torch.zeros(count, size, size)
    amplitude, step = 1.0, size
    while step >= 2:
        half = step // 2
        corners = height[:, ::step, ::step]
        below, right = corners.roll(-1, 1), corners.roll(-1, 2)
        centres = _displaced(corners + below + right + below.roll(-1, 2), amplitude, generator)
        height[:, half::step, half::step] = centres
        across = corners + right + centres + centres.roll(1, 1)
        height[:, ::step, half::step] = _displaced(across, amplitude, generator)
        along = corners + below + centres + centres.roll(1, 2)
        height[:, half::step, ::step] = _displaced(along, amplitude, generator)
        step, amplitude = half, amplitude / decay**2
    height -= height.amin((1, 2), keepdim=True)
    return height / height.amax((1, 2), keepdim=True)


def _displaced(sum_of_four: Tensor, amplitude: float, generator: Generator | None) -> Tensor:
    uniform = 2.0 * torch.rand(sum_of_four.shape, generator=generator) - 1.0
    return sum_of_four / 4.0 + amplitude * uniform


def snow(x: Tensor, severity: int, generator: Generator | None) -> Tensor:
    """Whitened image k x + (1 − k) max(x, 1.5 · grey + 0.5), plus flakes f and f turned by 180°.

    Flakes are normal numbers, enlarged, set to 0 below a threshold and blurred by
    :func:`felbo.data.corruptions.blur.smear` along a direction between −135° and −45°.
    """
    c = SNOW[severity - 1]
    count, _, height, width = x.shape
    flakes = c.mean + c.std * torch.randn(count, 1, height, width, generator=generator)
    flakes = zoom(flakes, c.zoom)
    flakes = torch.where(flakes < c.threshold, 0.0, flakes.clamp(0.0, 1.0))
    flakes = (flakes * 255.0).floor_() / 255.0  # the published code converts to bytes here
    degrees = 90.0 * torch.rand(count, generator=generator) - 135.0
    flakes = smear(flakes, c.radius, c.sigma, degrees)
    grey = (x * torch.tensor(LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True)
    whitened = c.kept * x + (1.0 - c.kept) * torch.maximum(x, 1.5 * grey + 0.5)
    return whitened + flakes + flakes.flip(2, 3)
