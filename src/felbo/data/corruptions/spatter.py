"""Spatter: drops of water (severities 1 to 3) or of mud (4 and 5) on the lens."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from felbo.data.corruptions.drops import drop_shading
from felbo.data.corruptions.filters import gaussian

__all__ = ["spatter"]

WATER_COLOUR = (175, 238, 238)  # pale turquoise
MUD_COLOUR = (63, 42, 20)
MUD_CUTOFF = 0.8


class _Spatter(NamedTuple):
    """Liquid: N(mean, std) after a Gaussian filter, only above the threshold."""

    mean: float
    std: float
    sigma: float
    threshold: float
    strength: float  # of the water, or width in pixels of the edge of the mud
    mud: bool


SPATTER = (
    _Spatter(0.62, 0.1, 0.7, 0.7, 0.5, False),
    _Spatter(0.65, 0.1, 0.8, 0.7, 0.5, False),
    _Spatter(0.65, 0.3, 1.0, 0.69, 0.5, False),
    _Spatter(0.65, 0.1, 0.7, 0.69, 0.6, True),
    _Spatter(0.65, 0.1, 0.5, 0.68, 0.6, True),
)


def spatter(x: Tensor, severity: int, generator: Generator | None) -> Tensor:
    """Water adds light, x + m · colour; mud covers, (1 − m) x + m · colour.

    m [N, 1, H, W] is the amount of liquid: for water the drops with their shading
    (:func:`felbo.data.corruptions.drops.drop_shading`), for mud the drops with a soft edge.
    """
    c = SPATTER[severity - 1]
    count, _, height, width = x.shape
    liquid = c.mean + c.std * torch.randn(count, 1, height, width, generator=generator)
    liquid = gaussian(liquid, c.sigma)
    if c.mud:
        cover = gaussian((liquid > c.threshold).float(), c.strength)
        cover = F.threshold(cover, MUD_CUTOFF, 0.0)
        return (1.0 - cover) * x + cover * _colour(MUD_COLOUR)
    drops = torch.where(liquid < c.threshold, 0.0, (liquid * 255.0).floor())
    return x + c.strength * drop_shading(drops) * _colour(WATER_COLOUR)


def _colour(rgb: tuple[int, int, int]) -> Tensor:
    return torch.tensor(rgb).view(1, 3, 1, 1) / 255.0
