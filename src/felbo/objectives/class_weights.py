"""Class weights: how much an item counts in the likelihood, by its label."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from felbo.errors import SettingError, ShapeError
from felbo.objectives.checks import NO_LABEL

ClassWeights = Sequence[float] | Tensor


def as_class_weights(given: ClassWeights | None) -> Tensor | None:
    """Return class weights ``[K]`` as a float64 tensor; raise unless they can be weights.

    Args:
        given: one number per class, a sequence, array or tensor; ``None`` for no weights.
    """
    if given is None:
        return None
    weights = torch.as_tensor(given).detach().double()
    if weights.dim() != 1 or not bool((weights.isfinite() & (weights >= 0)).all()):
        raise SettingError(
            f"class_weights must be one finite number ≥ 0 per class, [K]; got {given!r}. "
            "scikit-learn's compute_class_weight('balanced', ...) makes them from labels."
        )
    return weights


def weighted_nll(logits: Tensor, labels: Tensor, class_weights: Tensor) -> Tensor:
    """Mean over draws and items of ``−w_y log softmax_y``: the sum is not divided by weights.

    Dividing by the sum of weights in the batch, as torch's mean does, would make the weight of an
    item depend on the other items of its batch: in a batch of one item, weights would not count.

    Args:
        logits: ``[M, B, K]``.
        labels: ``[B]``, int64.
        class_weights: w ``[K]``.
    """
    draws, _, classes = logits.shape
    if len(class_weights) != classes:
        raise ShapeError(f"There are {len(class_weights)} class_weights for {classes} classes.")
    rows, targets = logits.flatten(0, 1), labels.repeat(draws)
    weights = class_weights.to(logits)
    total = F.cross_entropy(rows, targets, weights, reduction="sum", ignore_index=NO_LABEL)
    return total / len(targets)
