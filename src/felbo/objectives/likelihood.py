"""Negative log-likelihood (cross-entropy), without a prior over predictions."""

from __future__ import annotations

from torch import Tensor

from felbo import fused
from felbo.inputs import Inputs, batch_size
from felbo.models import StochasticClassifier
from felbo.objectives.base import Loss, Objective
from felbo.objectives.checks import NO_LABEL, check_label_kind, check_label_range, check_model
from felbo.objectives.forward import checked


def expected_nll(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over draws and items of ``−log softmax_y`` for ``logits [M, B, K]``, ``labels [B]``."""
    _, batch, classes = logits.shape
    check_label_kind(labels, batch)
    try:
        return fused.cross_entropy(logits, labels.long(), ignore_index=NO_LABEL)
    except IndexError:
        # Only after a failure: checking labels in every step would cost as much as the loss.
        check_label_range(labels, classes)
        raise


class NegativeLogLikelihood(Objective):
    """``mean over batch and draws of −log f_y``; add weight decay in the optimiser for MAP.

    Args:
        num_samples: draws per step; ``None`` takes the model's training default.
    """

    def __init__(self, num_samples: int | None = None) -> None:
        self.num_samples = num_samples

    def __call__(self, model: StochasticClassifier, x: Inputs, y: Tensor) -> Loss:
        """Return the loss of ``model`` on inputs ``x [B, ...]`` and labels ``y [B]``."""
        check_model(model)
        nll = expected_nll(checked(model(x, self.num_samples), batch_size(x)), y)
        return Loss(total=nll, nll=nll, kl=nll.new_zeros(()))
