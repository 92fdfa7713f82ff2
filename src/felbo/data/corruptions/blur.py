"""Blur: Gaussian, defocus, glass, motion and zoom."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from felbo.data.corruptions.filters import correlate, gaussian, zoom

__all__ = ["defocus_blur", "gaussian_blur", "glass_blur", "motion_blur", "smear", "zoom_blur"]

GAUSSIAN_SIGMA = (0.4, 0.6, 0.7, 0.8, 1.0)
DISK_RADIUS_AND_SIGMA = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))
GLASS_SIGMA_AND_ROUNDS = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))
MOTION_RADIUS_AND_SIGMA = ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))
ZOOM_END = (1.06, 1.11, 1.16, 1.21, 1.26)


def gaussian_blur(x: Tensor, severity: int, generator: Generator | None = None) -> Tensor:
    """Gaussian filter with replicated border pixels. Not random."""
    return gaussian(x, GAUSSIAN_SIGMA[severity - 1])


def defocus_blur(x: Tensor, severity: int, generator: Generator | None = None) -> Tensor:
    """Filter with a disk whose edge is softened by a 3 × 3 Gaussian. Not random."""
    radius, sigma = DISK_RADIUS_AND_SIGMA[severity - 1]
    return correlate(x, soft_disk(radius, sigma))


def soft_disk(radius: float, sigma: float) -> Tensor:
    """Weights [2r + 3, 2r + 3], r = ⌊radius⌋, of a disk after a 3 × 3 Gaussian; they sum to 1."""
    reach = math.floor(radius) + 1
    square = torch.arange(-reach, reach + 1, dtype=torch.float64) ** 2
    disk = (square.unsqueeze(1) + square <= radius**2).double()
    bell = torch.exp(-0.5 * (torch.arange(-1, 2, dtype=torch.float64) / sigma) ** 2)
    bell /= bell.sum()
    softener = torch.outer(bell, bell).expand(1, 1, 3, 3)
    return F.conv2d((disk / disk.sum()).expand(1, 1, -1, -1), softener, padding=1)[0, 0].float()


def glass_blur(x: Tensor, severity: int, generator: Generator | None) -> Tensor:
    """Blur, displace each pixel by at most one, blur again.

    In each round, the pixel at (i, j), i, j ≥ 2, becomes the one at (i − a, j − b) with a and b
    drawn from {0, 1}. The published loop is written as a swap of two pixels but assigns through
    views of one array, so that the second assignment copies a pixel onto itself; since it runs from
    the last row and column to the first, it reads pixels that are still unchanged. It is therefore
    equivalent to the lookup done here, without a loop.
    """
    sigma, rounds = GLASS_SIGMA_AND_ROUNDS[severity - 1]
    # The published code converts to bytes here.
    blurred = (gaussian(x, sigma) * 255.0 + 2**-12).floor_() / 255.0
    for _ in range(rounds):
        blurred = _displace(blurred, generator)
    return gaussian(blurred, sigma)


def _displace(x: Tensor, generator: Generator | None) -> Tensor:
    count, _, height, width = x.shape
    shift = torch.randint(0, 2, (2, count, height, width), generator=generator)
    shift[:, :, :2] = 0
    shift[:, :, :, :2] = 0
    rows = torch.arange(height).unsqueeze(1) - shift[0]
    columns = torch.arange(width) - shift[1]
    return _lookup(x, rows * width + columns)


def _lookup(x: Tensor, index: Tensor) -> Tensor:
    """Pixels of x [N, C, H, W] at flat positions [N, H, W], the same for every channel."""
    flat = index.flatten(1).unsqueeze(1).expand(-1, x.shape[1], -1)
    return x.flatten(2).gather(2, flat).view(x.shape)


def motion_blur(x: Tensor, severity: int, generator: Generator | None) -> Tensor:
    """Motion blur in a direction between −45° and 45°, drawn for each image."""
    radius, sigma = MOTION_RADIUS_AND_SIGMA[severity - 1]
    degrees = 90.0 * torch.rand(len(x), generator=generator) - 45.0
    return smear(x, radius, sigma, degrees)


def smear(x: Tensor, radius: int, sigma: float, degrees: Tensor) -> Tensor:
    """One-sided weighted average along a line: Σ_k w_k x[i + dy_k, j + dx_k].

    w_k ∝ exp(−k² / 2σ²) for k = 0 … 2 · radius, dx_k and dy_k are k cos φ and k sin φ rounded to
    whole pixels, and border pixels are replicated. This is the rule of
    ImageMagick's motion blur (`MagickCore/effect.c`), which the benchmark calls, up to the rounding
    of halves and its 16-bit arithmetic. The result is rounded to bytes as there.

    Args:
        x: [N, C, H, W] in [0, 1].
        radius: Sets the number of pixels averaged, 2 · radius + 1.
        sigma: Standard deviation of the weights in pixels.
        degrees: Direction φ [N] of each image; 0 is to the right, 90 is down.
    """
    height, width = x.shape[-2:]
    angle = torch.deg2rad(degrees.double())
    steps = torch.arange(2 * radius + 1, dtype=torch.float64)
    weights = torch.exp(-0.5 * (steps / sigma) ** 2)
    weights /= weights.sum()
    total = torch.zeros_like(x)
    for step, weight in zip(steps.tolist(), weights.tolist(), strict=True):
        right = torch.ceil(step * angle.cos() - 0.5).long()
        down = torch.ceil(step * angle.sin() - 0.5).long()
        rows = (torch.arange(height) + down.unsqueeze(1)).clamp(0, height - 1)
        columns = (torch.arange(width) + right.unsqueeze(1)).clamp(0, width - 1)
        index = rows.unsqueeze(2) * width + columns.unsqueeze(1)
        total.add_(_lookup(x, index), alpha=weight)
    return total.mul_(255.0).round_().div_(255.0)


def zoom_blur(x: Tensor, severity: int, generator: Generator | None = None) -> Tensor:
    """Mean of the image and its enlargements by 1.00, 1.01, … about the centre. Not random."""
    # np.arange, for the same rounding as the benchmark: it includes the end at severities 1 and 2
    # only, and its last factor at severity 5, slightly above 1.25, decides which pixels are cut.
    factors = np.arange(1.0, ZOOM_END[severity - 1], 0.01).tolist()
    total = x.clone()
    for factor in factors:
        total += zoom(x, factor)
    return total / (len(factors) + 1)
