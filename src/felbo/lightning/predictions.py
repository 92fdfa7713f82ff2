"""Join the predictions of batches, as ``Trainer.predict`` returns them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from felbo.evaluation import Prediction


def concatenate(predictions: Sequence[Prediction]) -> Prediction:
    """Return one prediction for the inputs of all batches, in order.

    Args:
        predictions: of one model: what ``trainer.predict(module, loader)`` returns.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MAP(felbo.networks.mlp(2, (8,), 3))
        >>> x = torch.zeros(5, 2)
        >>> len(concatenate([felbo.predict(model, x[:3]), felbo.predict(model, x[3:])]))
        5
    """
    if not isinstance(predictions, Sequence) or not predictions:
        raise _unexpected(predictions)
    for part in predictions:
        if not isinstance(part, Prediction):
            raise _unexpected(predictions)
    probs = torch.cat([part.probs for part in predictions])
    sources = [part.source for part in predictions]
    direct = [source for source in sources if isinstance(source, Tensor)]
    spreads = [source for source in sources if not isinstance(source, Tensor)]
    settings = {(part.draws, part.smoothing, part.max_precision) for part in spreads}
    if (direct and spreads) or len(settings) > 1:
        raise ValueError(
            "These predictions are of different models, or made with different settings (draws, "
            "smoothing, bound of the precision)."
        )
    if direct:
        return Prediction(probs, torch.cat(direct))
    return Prediction(probs, replace(spreads[0], value=torch.cat([s.value for s in spreads])))


def _unexpected(given: object) -> TypeError:
    return TypeError(
        "concatenate takes the list of felbo.Prediction that trainer.predict(module, loader) "
        f"returns, one per batch; got {type(given).__name__}."
    )
