"""Recommended mixture of measurement points away from the data."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from felbo.errors import DataError, SettingError, ShapeError
from felbo.inputs import Inputs, batch_size, concatenate, tensors
from felbo.measurement.base import Comparison, MeasurementLike, MeasurementSet, as_measurement_set
from felbo.measurement.colours import Monochrome, Noise
from felbo.measurement.draws import permutation
from felbo.measurement.filtered import PhaseNoise, Smoothed
from felbo.measurement.itemwise import points_from_rows
from felbo.measurement.rearranged import Rolled, ShuffledPatches
from felbo.measurement.tables import Beyond, Box


def image_parts(generator: torch.Generator | None = None) -> list[MeasurementSet]:
    """Return the parts of :class:`Elsewhere` for images.

    Rough: shuffled patches, noise. Smooth: blur, one colour. Near the data: rolled images, the
    narrower blurs. Far from the data: phase noise, noise, one colour. :class:`Mosaic` and
    :class:`RandomConvolution` are not included: many of their points are so close to images of one
    class that they cost log-likelihood and accuracy on the data.
    """
    return [
        Rolled(generator=generator),
        ShuffledPatches(generator=generator),
        PhaseNoise(generator=generator),
        Smoothed(generator=generator),
        Monochrome(generator=generator),
        Noise(generator=generator),
    ]


def table_parts(generator: torch.Generator | None = None) -> list[MeasurementSet]:
    """Return the parts of :class:`Elsewhere` for tables: around the data and beyond them.

    Two thirds lie in a box and a third on lines beyond the data: in a box of many columns hardly
    any point has all of its values high, or all low, which is how correlated columns move.
    :class:`ShuffledColumns` is not included: in a table with weakly dependent columns its points
    are ordinary rows, and cost log-likelihood on the data.
    """
    box = Box(generator=generator)
    return [box, box, Beyond(generator=generator)]


class Elsewhere(MeasurementSet):
    """Points away from the data, independent of any particular distribution shift.

    The items of the batch are divided at random among several sets, about equally and without
    overlap, in every step; each set makes points from its items. With as many points as items, a
    step costs one more forward and backward pass; sets with more points than items, such as
    :class:`Grid`, add to it, and :class:`WorstCase` takes one more pass over its own points.

    Args:
        parts: measurement sets, or functions ``x -> points``, that share the batch; ``None`` is
            :func:`image_parts` for images ``[B, C, H, W]`` and :func:`table_parts` for tables
            ``[B, D]``.
        fraction: points per item of the batch, in (0, 1].
        generator: source of random numbers, also of the parts if these are not given; ``None`` is
            torch's global generator.

    Example:
        >>> import torch
        >>> Elsewhere()(torch.rand(16, 3, 32, 32)).shape
        torch.Size([16, 3, 32, 32])
        >>> Elsewhere(fraction=0.5)(torch.rand(16, 4)).shape
        torch.Size([8, 4])
    """

    def __init__(
        self,
        parts: Sequence[MeasurementLike] | None = None,
        fraction: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        if not 0.0 < fraction <= 1.0:
            raise SettingError(f"fraction must lie in (0, 1], got {fraction}.")
        self.parts = None if parts is None else [as_measurement_set(part) for part in parts]
        if self.parts is not None and not self.parts:
            raise SettingError("parts needs at least one measurement set, got none.")
        if any(part.includes_batch for part in self.parts or ()):
            raise SettingError(
                "A part of Elsewhere includes the batch, which is where the data are. For both "
                "together use Mixture(Batch(), Elsewhere(...))."
            )
        self.fraction = fraction
        self.generator = generator
        self._of_images = image_parts(generator)
        self._of_tables = table_parts(generator)

    def __call__(self, x: Inputs, comparison: Comparison | None = None) -> Inputs:
        """Return the points of all parts ``[S, ...]``, in the order of the parts."""
        parts = self.parts_for(x)
        found = [
            points_from_rows(part, x, rows, comparison)
            for part, rows in zip(parts, self._shares(x, len(parts)), strict=True)
            if len(rows)
        ]
        return concatenate(found)

    def parts_for(self, x: Inputs) -> list[MeasurementSet]:
        """Return the sets that share the batch ``x``."""
        if self.parts is not None:
            return self.parts
        axes = x.dim() if isinstance(x, Tensor) else None
        if axes == 4:
            return self._of_images
        if axes == 2:
            return self._of_tables
        came = f"shape {list(x.shape)}" if isinstance(x, Tensor) else f"{type(x).__name__}"
        raise ShapeError(
            "Elsewhere has default parts for images [B, C, H, W] and tables [B, D] as one tensor, "
            f"got {came}. Pass the parts: Elsewhere(parts=[...])."
        )

    def _shares(self, x: Inputs, parts: int) -> list[Tensor]:
        """Draw the rows of the batch for each part; the remainder goes to random parts."""
        items = batch_size(x)
        if items == 0:
            raise DataError("Elsewhere makes points from the items of the batch, which is empty.")
        count = max(1, round(self.fraction * items))
        rows = permutation(items, self.generator)[:count].to(next(tensors(x)).device)
        places: list[int] = permutation(parts, self.generator).tolist()
        sizes = [count // parts + (place < count % parts) for place in places]
        return list(torch.split(rows, sizes))
