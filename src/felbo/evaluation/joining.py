"""Join what lies behind the predictions of several batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from felbo.errors import DataError
from felbo.evaluation.spread import Spread


def joined_sources(sources: Sequence[Spread | Tensor]) -> Spread | Tensor:
    """Return the spread, or the concentration ``[B, K]``, of all batches in order.

    Raises:
        ValueError: if the batches cannot be of one model.
    """
    direct = [source for source in sources if isinstance(source, Tensor)]
    spreads = [source for source in sources if not isinstance(source, Tensor)]
    settings = {(part.draws, part.smoothing, part.max_precision) for part in spreads}
    if (direct and spreads) or len(settings) > 1:
        raise DataError(
            "These predictions are of different models, or made with different settings (draws, "
            "smoothing, bound of the precision)."
        )
    if direct:
        return torch.cat(direct)
    return replace(spreads[0], value=torch.cat([part.value for part in spreads]))
