"""N, the number of training examples, and B, the number of items of an optimiser step."""

from __future__ import annotations

from felbo.objectives import FunctionSpaceELBO, Objective, WeightSpaceELBO
from felbo.training.sources import Batches, Data, num_items


def training_size(objective: Objective, data: Data) -> int | None:
    """Return N: that of the objective if it has one, else the size of the data.

    ``None`` for a stream without a length.
    """
    if isinstance(objective, FunctionSpaceELBO | WeightSpaceELBO):
        return max(1, round(objective.num_data))
    return num_items(data)


def items_per_step(batches: Batches, accumulate: int) -> int:
    """Return B, the items of a full optimiser step on one device; 1 if unknown.

    Args:
        batches: what an epoch iterates over.
        accumulate: batches per optimiser step.
    """
    full = (batches.full_size or 1) * accumulate
    return full if batches.size is None else max(1, min(full, batches.size))
