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
    if not predictions or not all(isinstance(part, Prediction) for part in predictions):
        raise TypeError(
            "concatenate takes the list of felbo.Prediction that trainer.predict(module, loader) "
            f"returns, one per batch; got {predictions!r}."
        )
    probs = torch.cat([part.probs for part in predictions])
    sources = [part.source for part in predictions]
    first = sources[0]
    if isinstance(first, Tensor):
        return Prediction(probs, torch.cat([part.concentration for part in predictions]))
    spreads = [source for source in sources if not isinstance(source, Tensor)]
    settings = {(part.draws, part.smoothing, part.max_precision) for part in spreads}
    if len(spreads) < len(sources) or len(settings) > 1:
        raise ValueError(
            "These predictions are of different models, or made with different settings (draws, "
            f"smoothing, bound of the precision): {sorted(settings)}."
        )
    return Prediction(probs, replace(first, value=torch.cat([part.value for part in spreads])))
