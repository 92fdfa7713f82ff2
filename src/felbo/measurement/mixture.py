"""Union of several measurement sets."""

from __future__ import annotations

from felbo.errors import SettingError
from felbo.inputs import Inputs, concatenate
from felbo.measurement.base import Comparison, MeasurementLike, MeasurementSet, as_measurement_set
from felbo.measurement.checks import checked_points


class Mixture(MeasurementSet):
    """The union of several measurement sets.

    Args:
        sets: the parts, measurement sets or functions ``x -> points``; with :class:`Batch` among
            them the batch's forward pass is shared.

    Example:
        >>> import torch
        >>> from felbo.measurement import Batch
        >>> enriched = Mixture(Batch(), lambda x: -x)
        >>> enriched(torch.ones(2, 1))
        tensor([[-1.],
                [-1.]])
        >>> enriched.includes_batch
        True
    """

    def __init__(self, *sets: MeasurementLike) -> None:
        if not sets:
            raise SettingError("A mixture needs at least one measurement set.")
        self.sets = tuple(as_measurement_set(part) for part in sets)
        self.includes_batch = any(part.includes_batch for part in self.sets)

    def __call__(self, x: Inputs, comparison: Comparison | None = None) -> Inputs | None:
        """Return the points of all parts beside the batch ``[S, ...]``, or ``None`` if none."""
        found = []
        for part in self.sets:
            points = part(x, comparison)
            if points is not None or not part.includes_batch:
                found.append(checked_points(points, x, type(part).__name__))
        return concatenate(found) if found else None
