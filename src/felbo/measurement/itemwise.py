"""Base classes of measurement sets that make one point from each item of the batch."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from felbo.errors import InputTypeError, ShapeError
from felbo.inputs import Inputs, concatenate, map_tensors
from felbo.measurement.base import Comparison, MeasurementSet
from felbo.measurement.checks import checked_points, one_tensor


class ItemwiseSet(MeasurementSet):
    """Makes points from items of a batch, using statistics of the whole batch.

    Ranges, deviations and partners come from the whole batch even if points are made from a few
    rows only, as in :class:`Elsewhere`, which divides the rows among several sets.
    """

    def __call__(self, x: Inputs, comparison: Comparison | None = None) -> Tensor:
        """Return the points made from all items of the batch."""
        x = one_tensor(x, type(self).__name__)
        return self.from_rows(x, torch.arange(len(x), device=x.device), comparison)

    @abstractmethod
    def from_rows(self, x: Inputs, rows: Tensor, comparison: Comparison | None = None) -> Tensor:
        """Return the points made from some rows of the batch.

        Args:
            x: the whole batch ``[B, ...]``.
            rows: indices ``[S]`` of the items to make points from.
            comparison: as in :meth:`MeasurementSet.__call__`.
        """


class DrawnSet(ItemwiseSet):
    """Makes one random point from each item; a subclass implements :meth:`draw`.

    Args:
        generator: source of random numbers; ``None`` is torch's global generator.
    """

    # False if points only rearrange values of the batch, which may then be integers.
    computes: bool = True

    def __init__(self, generator: torch.Generator | None = None) -> None:
        self.generator = generator

    def from_rows(self, x: Inputs, rows: Tensor, comparison: Comparison | None = None) -> Tensor:
        """Return one point for each of some rows ``[S]`` of the batch, ``[S, ...]``."""
        x = one_tensor(x, type(self).__name__)
        self.check(x)
        if self.computes and not x.is_floating_point():
            raise InputTypeError(
                f"{type(self).__name__} computes new values and needs floating-point inputs, got "
                f"{x.dtype}. Convert them first, images with felbo.data.scale or .normalize."
            )
        # Half precision is too coarse, and the CPU has no FFT for it.
        wide = x.to(torch.promote_types(x.dtype, torch.float32)) if self.computes else x
        with torch.no_grad(), _without_autocast(x.device.type):
            return self.draw(wide, rows).to(x.dtype)

    def check(self, x: Tensor) -> None:
        """Raise if the set does not support a batch of this shape."""

    @abstractmethod
    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Draw points ``[S, ...]`` for rows ``[S]`` of the batch ``[B, ...]``."""


class ImageSet(DrawnSet):
    """Makes one point from each image ``[C, H, W]``."""

    def check(self, x: Tensor) -> None:
        """Raise unless ``x`` is a batch of images."""
        if x.dim() != 4:
            raise ShapeError(
                f"{type(self).__name__} needs images [B, C, H, W], got shape {list(x.shape)}. "
                "Add a channel axis to grey images with x.unsqueeze(1)."
            )


class TableSet(DrawnSet):
    """Makes one point from each row of a table."""

    def check(self, x: Tensor) -> None:
        """Raise unless ``x`` is a table."""
        if x.dim() != 2:
            raise ShapeError(
                f"{type(self).__name__} needs a table [B, D], got shape {list(x.shape)}. "
                "For images use ShuffledPatches, Monochrome and others."
            )


def _without_autocast(device_type: str) -> AbstractContextManager[object]:
    available = torch.amp.is_autocast_available(device_type)
    return torch.autocast(device_type, enabled=False) if available else nullcontext()


def points_from_rows(
    part: MeasurementSet, x: Inputs, rows: Tensor, comparison: Comparison | None
) -> Inputs:
    """Return the points of any set for some rows ``[S]`` of the batch.

    A set that is not itemwise sees these rows as its batch; if it includes the batch, they are
    among the points.
    """
    if isinstance(part, ItemwiseSet):
        return checked_points(part.from_rows(x, rows, comparison), x, type(part).__name__)
    items = map_tensors(lambda values: values.index_select(0, rows), x)
    points = part(items, comparison)
    if part.includes_batch:
        points = items if points is None else concatenate([items, points])
    return checked_points(points, x, type(part).__name__)
