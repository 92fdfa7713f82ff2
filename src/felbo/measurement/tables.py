"""Measurement points for tables ``[B, D]``: shuffled columns, outside the data, in a box."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from felbo._numbers import refuse_booleans
from felbo.errors import SettingError
from felbo.measurement.draws import integers, partners, uniform
from felbo.measurement.itemwise import TableSet
from felbo.measurement.ranges import Bound, ChannelRange, moments


class ShuffledColumns(TableSet):
    """Rows whose columns come from different items, which makes the columns independent.

    Each column is rolled by a random number of items, independently of the others. Each value of a
    point then comes from a uniformly drawn item, and over the whole batch every column keeps its
    values. (Permutations by sorting would be many times slower for wide tables.) A batch of one is
    returned unchanged.

    Args:
        generator: source of random numbers; ``None`` is torch's global generator.

    Example:
        >>> import torch
        >>> ShuffledColumns()(torch.rand(8, 3)).shape
        torch.Size([8, 3])
    """

    computes = False

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return rows of shuffled columns ``[S, D]``."""
        shift = integers(0, len(x) - 1, (x.shape[1],), x, self.generator)
        return x.gather(0, (rows[:, None] + shift) % len(x))


class Beyond(TableSet):
    """Points outside the data on lines through two items.

    For items a and b the point is ``a + t (a − b)``, with t such that it lies beyond the
    projections of all items on the line, by ``nearest`` to ``farthest`` times their range. Columns
    are standardised for the projections, so that their units do not matter. No point lies in the
    convex hull of the batch, except for a batch of one and for equal items: then it is the item
    itself.

    Args:
        nearest: smallest distance from the data, in units of their range along the line. A batch of
            few items in many columns does not reach as far as the data do: points just beyond it
            are where other data are.
        farthest: largest distance, likewise.
        generator: source of random numbers; ``None`` is torch's global generator.

    Example:
        >>> import torch
        >>> Beyond(farthest=3.0)(torch.rand(8, 3)).shape
        torch.Size([8, 3])
    """

    def __init__(
        self,
        nearest: float = 1.0,
        farthest: float = 2.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(generator)
        if not (0.0 <= nearest <= farthest < math.inf and farthest > 0.0):
            raise SettingError(
                "Beyond needs 0 ≤ nearest ≤ farthest and a farthest above 0, got "
                f"nearest={nearest}, farthest={farthest}."
            )
        self.nearest, self.farthest = nearest, farthest

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return points outside the data ``[S, D]``."""
        mean, deviation = moments(x)
        unit = torch.where(deviation > 0, deviation, 1.0)
        items = (x - mean) / unit
        start = items.index_select(0, rows)
        line = start - items.index_select(0, partners(rows, x, self.generator))
        # Positions along each line, in units of a − b and with a at 0.
        projections = line @ items.T
        origin = (line * start).sum(-1, keepdim=True)
        square = line.square().sum(-1, keepdim=True).clamp_min(torch.finfo(line.dtype).tiny)
        low = (projections.amin(-1, keepdim=True) - origin) / square
        high = (projections.amax(-1, keepdim=True) - origin) / square
        # Not at zero, where a point would be on the hull.
        share = 1.0 - uniform(low.shape, x, self.generator)
        past = self.nearest + (self.farthest - self.nearest) * share
        return mean + unit * (start + (high + past * (high - low)) * line)


class Box(TableSet):
    """Points uniform in a box around the data.

    Args:
        low: lowest value, one number or one per column; ``None`` is the mean of the batch minus
            ``scale`` standard deviations, for each column.
        high: highest value, likewise.
        scale: half the width of the box in standard deviations of the batch, where ``low`` and
            ``high`` are not given. A batch of one has zero deviation: its row is returned.
        generator: source of random numbers; ``None`` is torch's global generator.
        nearest: keeps a smaller box around the data empty, of so many standard deviations to either
            side: points in it are moved away from the mean, to its surface. Below ``scale``, and
            without ``low`` and ``high``.

    Example:
        >>> import torch
        >>> Box(low=[0.0, -1.0], high=[2.0, 1.0])(torch.rand(8, 2)).shape
        torch.Size([8, 2])
    """

    def __init__(
        self,
        low: Bound | None = None,
        high: Bound | None = None,
        scale: float = 6.0,
        generator: torch.Generator | None = None,
        *,
        nearest: float = 0.0,
    ) -> None:
        super().__init__(generator)
        refuse_booleans(scale=scale, nearest=nearest)
        if not 0.0 < scale < math.inf:
            raise SettingError(f"scale must be positive, got {scale}.")
        if not 0.0 <= nearest < scale:
            raise SettingError(f"nearest must lie in [0, scale), got {nearest}.")
        self.range = None if low is None and high is None else ChannelRange(low, high)
        if nearest and self.range is not None:
            raise SettingError("nearest counts deviations: it goes with scale, not low and high.")
        self.scale, self.nearest = scale, nearest

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return points of the box ``[S, D]``."""
        share = uniform((len(rows), x.shape[1]), x, self.generator)
        if self.range is not None:
            low, high = self.range(x)
            return low + (high - low) * share
        mean, deviation = moments(x)
        low, high = mean - self.scale * deviation, mean + self.scale * deviation
        points = low + (high - low) * share
        return self._moved_out(points, mean, deviation) if self.nearest else points

    def _moved_out(self, points: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
        """Move points out of the inner box, away from the mean."""
        unit = torch.where(deviation > 0, deviation, 1.0)
        largest = ((points - mean) / unit).abs().amax(1, keepdim=True)
        # A point at the mean itself, as of constant columns, has no direction and stays.
        factor = self.nearest / largest.clamp_min(1e-6 * self.nearest)
        return mean + (points - mean) * factor.clamp_min(1.0)
