"""Softmax of draws, also fast for many rows of few classes on a CPU.

``torch.softmax`` runs value by value when a row is shorter than a vector register (16 floats): for
K = 10 that takes ten times as long as the exponentials do. It is one operation, though, and for few
rows that counts more.
"""

from __future__ import annotations

import torch
from torch import Tensor

from felbo._constants import filled
from felbo._matmul import sums_in_full

# Between exp(−40) and exp(40), neither a sum of exponentials nor a quotient of two can leave the
# range of float32, so that no row needs its largest logit subtracted.
_SAFE = 40.0
# A row shorter than this does not fill a vector register.
_SHORT = 16
# From this size on, several operations that run on whole vectors beat one that does not.
_MANY = 8192


def softmax(logits: Tensor) -> Tensor:
    """Return class probabilities for ``logits [..., K]``; half precision comes back as float32."""
    logits = _widened(logits)
    return _short_rows(logits)[0] if _has_many_short_rows(logits) else logits.softmax(-1)


def softmax_and_log(logits: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return class probabilities, and their logarithms where ``probs.log()`` may lose them.

    Args:
        logits: ``[..., K]``.

    Returns:
        Probabilities and logarithms, each ``[..., K]``; ``None`` stands for ``probs.log()``, which
        is then exact, but not always needed for all of them.
    """
    logits = _widened(logits)
    if logits.dim() == 3 and not logits.is_contiguous():
        # Draws from one matrix product lie side by side for every item. They may stay so.
        return _of_swapped(logits.transpose(0, 1))
    if logits.numel() >= _MANY and logits.device.type == "cpu":
        if logits.shape[-1] < _SHORT:
            return _short_rows(logits)
        if _is_safe(logits):
            return logits.softmax(-1), None
    log_probs = logits.log_softmax(-1)
    return log_probs.exp(), log_probs


def _of_swapped(logits: Tensor) -> tuple[Tensor, Tensor | None]:
    probs, log_probs = softmax_and_log(logits.contiguous())
    return probs.transpose(0, 1), None if log_probs is None else log_probs.transpose(0, 1)


def row_sums(values: Tensor) -> Tensor:
    """Sum over the last axis of ``[..., K]``, in a shape that combines with the values."""
    short = _has_many_short_rows(values) and values.is_contiguous()
    if not (short and sums_in_full("cpu")):
        return values.sum(-1, keepdim=True)
    # A matrix product knows how to handle short rows, and can fill the rows of the result as well.
    classes = values.shape[-1]
    return torch.mm(values.view(-1, classes), filled(1.0, (classes, classes), values)).view_as(
        values
    )


def _widened(logits: Tensor) -> Tensor:
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _has_many_short_rows(values: Tensor) -> bool:
    return values.shape[-1] < _SHORT and values.numel() >= _MANY and values.device.type == "cpu"


def _is_safe(logits: Tensor) -> bool:
    low, high = torch.aminmax(logits)
    # A NaN compares as false, and goes the long way.
    return float(low) > -_SAFE and float(high) < _SAFE


def _short_rows(logits: Tensor) -> tuple[Tensor, Tensor | None]:
    logits = logits.contiguous()
    if _is_safe(logits):
        exps = logits.exp()
        return exps.div_(row_sums(exps)), None
    centred = logits - logits.amax(-1, keepdim=True)
    exps = centred.exp()
    total = row_sums(exps)
    return exps.div_(total), centred.sub_(total.log_())
