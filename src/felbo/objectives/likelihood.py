"""Plain negative log-likelihood: the conventional counterpart without a function-space prior."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from felbo.models import StochasticClassifier
from felbo.objectives._checks import check_labels
from felbo.objectives.loss import Loss


def expected_nll(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Mean over draws and items of ``−log f_y`` for ``log_probs [M, B, K]``, ``labels [B]``."""
    draws = log_probs.shape[0]
    targets = labels.long().repeat(draws) if draws > 1 else labels.long()
    return F.nll_loss(log_probs.flatten(0, 1), targets)


class NegativeLogLikelihood:
    """``mean over batch and draws of −log f_y``; add weight decay in the optimiser for MAP.

    Args:
        num_samples: draws per step; ``None`` takes the model's training default.
    """

    def __init__(self, num_samples: int | None = None) -> None:
        self.num_samples = num_samples

    def __call__(self, model: StochasticClassifier, x: Tensor, y: Tensor) -> Loss:
        """Return the loss of ``model`` on inputs ``x [B, ...]`` and labels ``y [B]``."""
        logits = model(x, self.num_samples)
        check_labels(y, logits.shape[1], logits.shape[2])
        nll = expected_nll(F.log_softmax(logits, dim=-1), y)
        return Loss(total=nll, nll=nll.detach(), kl=torch.zeros_like(nll))
