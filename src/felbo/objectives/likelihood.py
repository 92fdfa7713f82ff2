"""Plain negative log-likelihood: the conventional counterpart without a function-space prior."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from felbo._constants import scalar
from felbo.models import StochasticClassifier
from felbo.objectives._checks import NO_LABEL, check_label_kind, check_label_range
from felbo.objectives.loss import Loss


def expected_nll(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over draws and items of ``−log softmax_y`` for ``logits [M, B, K]``, ``labels [B]``."""
    draws, batch, classes = logits.shape
    check_label_kind(labels, batch)
    targets = labels.long().repeat(draws) if draws > 1 else labels.long()
    try:
        return F.cross_entropy(logits.flatten(0, 1), targets, ignore_index=NO_LABEL)
    except IndexError:
        # Looking through the labels before every step would cost as much as using them.
        check_label_range(labels, classes)
        raise


class NegativeLogLikelihood:
    """``mean over batch and draws of −log f_y``; add weight decay in the optimiser for MAP.

    Args:
        num_samples: draws per step; ``None`` takes the model's training default.
    """

    def __init__(self, num_samples: int | None = None) -> None:
        self.num_samples = num_samples

    def __call__(self, model: StochasticClassifier, x: Tensor, y: Tensor) -> Loss:
        """Return the loss of ``model`` on inputs ``x [B, ...]`` and labels ``y [B]``."""
        nll = expected_nll(model(x, self.num_samples), y)
        return Loss(total=nll, nll=nll.detach(), kl=scalar(0.0, nll))
