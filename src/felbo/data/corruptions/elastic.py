"""Elastic transform: a random affine map, then random local displacements."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from felbo.data.corruptions.filters import gaussian

__all__ = ["elastic_transform"]

# Amplitude and smoothness of the displacements and reach of the affine map, in units of the side.
AMPLITUDE_SIGMA_REACH = (
    (0.0, 0.0, 0.08),
    (0.05, 0.2, 0.07),
    (0.08, 0.06, 0.06),
    (0.1, 0.04, 0.05),
    (0.1, 0.03, 0.03),
)


def elastic_transform(x: Tensor, severity: int, generator: Generator | None) -> Tensor:
    """Random affine map (three points move at random), then a random displacement per pixel.

    The displacements are uniform numbers in [−1, 1] after a Gaussian filter, times an amplitude.
    Both steps interpolate linearly and mirror the image beyond its border. The published form
    rounds the positions of the affine step to 1/32 of a pixel.
    """
    height, width = x.shape[-2:]
    side = min(height, width)
    amplitude, sigma, reach = (side * value for value in AMPLITUDE_SIGMA_REACH[severity - 1])
    moved = _sample(x, _affine_positions(x, reach, generator), mirror_at_centres=True)
    noise = 2.0 * torch.rand(len(x), 2, height, width, generator=generator) - 1.0
    shift = amplitude * gaussian(noise, sigma, truncate=3.0, mirrored=True)
    return _sample(moved, _pixels(height, width) + shift.movedim(1, -1), mirror_at_centres=False)


def _affine_positions(x: Tensor, reach: float, generator: Generator | None) -> Tensor:
    """Position (x, y) at which each output pixel is sampled, [N, H, W, 2].

    Three points around the centre move by up to `reach` pixels in x and y. The positions are given
    by the affine map from the moved points to the original ones.
    """
    height, width = x.shape[-2:]
    arm = min(height, width) // 3
    corners = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]], dtype=torch.float64)
    points = torch.tensor([width // 2, height // 2], dtype=torch.float64) + arm * corners
    uniform = torch.rand(len(x), 3, 2, generator=generator, dtype=torch.float64)
    moved = points + reach * (2.0 * uniform - 1.0)
    matrix: Tensor = torch.linalg.solve(
        _with_ones(moved), points.expand(len(x), -1, -1)
    )  # [N, 3, 2]
    read = _with_ones(_pixels(height, width).double()).view(-1, 3) @ matrix
    return read.view(len(x), height, width, 2).float()


def _with_ones(points: Tensor) -> Tensor:
    return torch.cat([points, torch.ones_like(points[..., :1])], dim=-1)


def _pixels(height: int, width: int) -> Tensor:
    """Coordinates (x, y) of every pixel, [H, W, 2]."""
    rows, columns = torch.meshgrid(
        torch.arange(height, dtype=torch.float32),
        torch.arange(width, dtype=torch.float32),
        indexing="ij",
    )
    return torch.stack([columns, rows], dim=-1)


def _sample(x: Tensor, positions: Tensor, *, mirror_at_centres: bool) -> Tensor:
    """Sample x [N, C, H, W] at pixel positions [N, H, W, 2] by linear interpolation.

    `mirror_at_centres` reflects about the centre of the outermost pixel (c b | a b c), else about
    its edge (b a | a b c).
    """
    size = torch.tensor([x.shape[-1], x.shape[-2]], dtype=torch.float32)
    if mirror_at_centres:
        grid = 2.0 * positions / (size - 1.0) - 1.0
    else:
        grid = (2.0 * positions + 1.0) / size - 1.0
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=mirror_at_centres)
