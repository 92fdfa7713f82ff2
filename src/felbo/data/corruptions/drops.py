"""Shading of water drops for spatter: an embossed map of distances from their edges.

The published code builds this from OpenCV's Canny edges, 5 × 5 distance transform, histogram
equalisation and filters. Each is computed here for a batch of images, following the definitions in
OpenCV's documentation of `Canny`, `distanceTransform`, `equalizeHist`, `blur` and `filter2D`.
Results may differ in ties and in the last bit of a rounding.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from felbo.data.corruptions.filters import correlate

__all__ = ["drop_shading", "edge_distance", "edges", "equalize"]

LOW, HIGH = 50.0, 150.0
FARTHEST = 20.0
# Lengths of a horizontal or vertical step, a diagonal step, and a knight's move.
STEPS = (
    (1.0, ((0, 1), (1, 0))),
    (1.4, ((1, 1), (1, -1))),
    (2.1969, ((1, 2), (2, 1), (1, -2), (2, -1))),
)
EMBOSS = ((-2.0, -1.0, 0.0), (-1.0, 1.0, 1.0), (0.0, 1.0, 2.0))


def drop_shading(drops: Tensor) -> Tensor:
    """Shading of drops [N, 1, H, W] (bytes as floats, 0 where dry), scaled to a maximum of 1.

    Distance from the nearest edge of a drop, cut off at 20 pixels, blurred, equalised, embossed,
    blurred, times the depth of the drop. An image without drops gives 0 everywhere.
    """
    distance = edge_distance(edges(drops))
    relief = equalize(_mean3(distance).floor())
    embossed = correlate(relief, torch.tensor(EMBOSS)).clamp(0.0, 255.0)
    light = drops * _mean3(embossed).round()
    return light / light.amax((1, 2, 3), keepdim=True).clamp(min=1.0)


def edges(x: Tensor) -> Tensor:
    """Canny edges of x [N, 1, H, W]: bool, same shape.

    Sobel gradients with magnitude |∂x| + |∂y|, non-maximum suppression and hysteresis: a pixel is
    an edge if its gradient is the largest across the edge and exceeds LOW, and it is connected to
    one that exceeds HIGH.
    """
    from scipy.ndimage import binary_propagation  # lazy: a fifth of the import time of torch

    sobel = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    across, down = correlate(x, sobel, "replicate"), correlate(x, sobel.T, "replicate")
    size = across.abs() + down.abs()
    weak = _is_largest_across(size, across, down) & (size > LOW)
    # Images must not be connected: the structuring element has no neighbours along the batch.
    neighbours = torch.zeros(3, 1, 3, 3, dtype=torch.bool)
    neighbours[1] = True
    found = binary_propagation((weak & (size > HIGH)).numpy(), neighbours.numpy(), weak.numpy())
    return torch.from_numpy(found)


def _is_largest_across(size: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Non-maximum suppression: True if the gradient exceeds its neighbours along its direction."""
    shallow = down.abs() < math.tan(math.pi / 8) * across.abs()
    steep = down.abs() > math.tan(3 * math.pi / 8) * across.abs()
    falling = across * down > 0
    along_row = (size > _neighbour(size, 0, -1)) & (size >= _neighbour(size, 0, 1))
    along_column = (size > _neighbour(size, -1, 0)) & (size >= _neighbour(size, 1, 0))
    along_falling = (size > _neighbour(size, -1, -1)) & (size > _neighbour(size, 1, 1))
    along_rising = (size > _neighbour(size, -1, 1)) & (size > _neighbour(size, 1, -1))
    diagonal = torch.where(falling, along_falling, along_rising)
    return torch.where(shallow, along_row, torch.where(steep, along_column, diagonal))


def _neighbour(x: Tensor, down: int, right: int) -> Tensor:
    """x[i + down, j + right], 0 outside."""
    return _shifted(F.pad(x, (2, 2, 2, 2)), down, right)


def _shifted(padded: Tensor, down: int, right: int) -> Tensor:
    """x[i + down, j + right] of an image padded by two pixels on each side."""
    height, width = padded.shape[-2] - 4, padded.shape[-1] - 4
    return padded[..., 2 + down : 2 + down + height, 2 + right : 2 + right + width]


def edge_distance(edge: Tensor) -> Tensor:
    """Length of the shortest path of steps to an edge, up to FARTHEST, for edges [N, 1, H, W]."""
    distance = torch.where(edge, 0.0, FARTHEST)
    while True:
        padded = F.pad(distance, (2, 2, 2, 2), value=FARTHEST)
        shorter = distance.clone()
        for length, moves in STEPS:
            nearest = torch.full_like(distance, FARTHEST)
            for down, right in moves:
                torch.minimum(nearest, _shifted(padded, down, right), out=nearest)
                torch.minimum(nearest, _shifted(padded, -down, -right), out=nearest)
            torch.minimum(shorter, nearest.add_(length), out=shorter)
        if torch.equal(shorter, distance):
            return distance
        distance = shorter


def equalize(x: Tensor) -> Tensor:
    """Histogram equalisation of whole numbers x [N, 1, H, W]: 255 (F(x) − F(min)) / (1 − F(min)).

    F is the cumulative distribution of the pixel values. A constant image is not changed.
    """
    flat = x.flatten(1)
    values = torch.arange(int(flat.max()) + 1)
    up_to = (flat.unsqueeze(2) <= values).sum(1)  # [N, V]
    rank = up_to.gather(1, flat.long())
    lowest = up_to.gather(1, flat.amin(1, keepdim=True).long())
    spread = flat.shape[1] - lowest
    stretched = ((rank - lowest) * (255.0 / spread.clamp(min=1))).round()
    return torch.where(spread > 0, stretched, flat).view(x.shape)


def _mean3(x: Tensor) -> Tensor:
    return correlate(x, torch.full((3, 3), 1.0 / 9.0))
