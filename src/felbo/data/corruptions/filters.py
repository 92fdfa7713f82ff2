"""Linear image filters: separable ones as matrix products, others as sums of shifted images.

A separable filter of an image X [H, W] is R X Cᵀ with R [H, H] and C [W, W]. One matmul filters a
whole batch, and the border mode is built into R and C.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["correlate", "gaussian", "gaussian_matrix", "separable", "zoom", "zoom_matrix"]


def separable(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """R X Cᵀ for every image and channel.

    Args:
        x: [N, C, H, W].
        rows: R [H', H].
        columns: C [W', W].

    Returns:
        [N, C, H', W'].

    Example:
        >>> mirror = torch.eye(2).flip(0)
        >>> separable(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), mirror, torch.eye(2))
        tensor([[[[3., 4.],
                  [1., 2.]]]])
    """
    return rows @ (x @ columns.T)


def correlate(x: Tensor, kernel: Tensor, border: str = "reflect") -> Tensor:
    """Σ_ab k_ab x[i + a, j + b] for a small square kernel; same shape as x [N, C, H, W].

    Computed as a sum of shifted images, which on a CPU is several times faster than `F.conv2d`.

    Args:
        x: [N, C, H, W].
        kernel: [2 r + 1, 2 r + 1].
        border: Padding mode, `"reflect"` (c b | a b c) or `"replicate"` (a a | a b c).
    """
    height, width = x.shape[-2:]
    reach = len(kernel) // 2
    padded = F.pad(x, (reach,) * 4, mode=border)
    total = torch.zeros_like(x)
    for a, row in enumerate(kernel.tolist()):
        for b, weight in enumerate(row):
            if weight:
                total.add_(padded[..., a : a + height, b : b + width], alpha=weight)
    return total


def gaussian(x: Tensor, sigma: float, *, truncate: float = 4.0, mirrored: bool = False) -> Tensor:
    """Gaussian blur of x [N, C, H, W] with standard deviation `sigma` in pixels."""
    height, width = x.shape[-2:]
    rows = gaussian_matrix(height, sigma, truncate=truncate, mirrored=mirrored)
    columns = gaussian_matrix(width, sigma, truncate=truncate, mirrored=mirrored)
    return separable(x, rows, columns)


def gaussian_matrix(
    size: int, sigma: float, *, truncate: float = 4.0, mirrored: bool = False
) -> Tensor:
    """Matrix [size, size] of a Gaussian filter, weights cut off at radius ⌊truncate · σ + ½⌋.

    Args:
        size: Pixels along the axis.
        sigma: Standard deviation in pixels; 0 gives the identity.
        truncate: Cut-off in standard deviations.
        mirrored: Pad by reflection (d c b a | a b c d | d c b a); by default border pixels are
            replicated.
    """
    if sigma == 0.0:
        return torch.eye(size)
    radius = math.floor(truncate * sigma + 0.5)
    offsets = torch.arange(-radius, radius + 1)
    weights = torch.exp(-0.5 * (offsets.double() / sigma) ** 2)
    weights /= weights.sum()
    sources = torch.arange(size).unsqueeze(1) + offsets
    sources = _mirror(sources, size) if mirrored else sources.clamp(0, size - 1)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    return matrix.scatter_add_(1, sources, weights.expand(size, -1)).float()


def _mirror(index: Tensor, size: int) -> Tensor:
    within = index.remainder(2 * size)
    return torch.minimum(within, 2 * size - 1 - within)


def zoom(x: Tensor, factor: float) -> Tensor:
    """Enlarge x [N, C, H, W] about its centre by `factor` ≥ 1 and keep its size."""
    height, width = x.shape[-2:]
    return separable(x, zoom_matrix(height, factor), zoom_matrix(width, factor))


def zoom_matrix(size: int, factor: float) -> Tensor:
    """Matrix [size, size] that enlarges the middle of an axis by linear interpolation.

    The middle ⌈size / factor⌉ pixels are stretched to round(that · factor) pixels, first on first
    and last on last, of which the middle `size` are kept.
    """
    kept = math.ceil(size / factor)
    stretched = round(kept * factor)
    position = torch.arange(size, dtype=torch.float64) + (stretched - size) // 2
    source = position * (kept - 1) / (stretched - 1)
    lower = source.floor().clamp(max=max(kept - 2, 0)).long()
    share = source - lower
    first = (size - kept) // 2
    matrix = torch.zeros(size, size, dtype=torch.float64)
    matrix.scatter_(1, (first + lower).unsqueeze(1), (1.0 - share).unsqueeze(1))
    matrix.scatter_add_(1, (first + lower + 1).unsqueeze(1), share.unsqueeze(1))
    return matrix.float()
