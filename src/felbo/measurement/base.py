"""What a measurement set is, and how to combine several."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Batch inputs [B, ...] -> measurement points [S, ...]; None stands for the batch itself. A set with
# a true attribute `includes_batch` returns points that come in addition to the batch. In both cases
# the objective uses the batch's own forward pass a second time instead of running it again.
MeasurementSet = Callable[[Tensor], Tensor | None]


class Batch:
    """The training batch itself."""

    includes_batch = True

    def __call__(self, x: Tensor) -> None:
        """Return ``None``: no points beside the batch."""
        return None


class Mixture:
    """The union of several measurement sets.

    Args:
        sets: the parts; with :class:`Batch` among them the batch's forward pass is shared.

    Example:
        >>> import torch
        >>> enriched = Mixture(Batch(), lambda x: -x)
        >>> enriched(torch.ones(2, 1))
        tensor([[-1.],
                [-1.]])
        >>> enriched.includes_batch
        True
    """

    def __init__(self, *sets: MeasurementSet) -> None:
        if not sets:
            raise ValueError("A mixture needs at least one measurement set.")
        self.sets = sets
        self.includes_batch = any(getattr(part, "includes_batch", False) for part in sets)

    def __call__(self, x: Tensor) -> Tensor | None:
        """Return the points of all parts beside the batch ``[S, ...]``, or ``None`` if none."""
        points = []
        for part in self.sets:
            found = part(x)
            if found is not None:
                points.append(found)
            elif not getattr(part, "includes_batch", False):
                raise ValueError(f"{part!r} returned None; in a mixture use Batch() for the batch.")
        return torch.cat(points) if points else None
