"""Negative log-likelihood (cross-entropy), without a prior over predictions."""

from __future__ import annotations

from torch import Tensor

from felbo import fused
from felbo.inputs import Inputs, batch_size
from felbo.models import StochasticClassifier
from felbo.objectives.base import Loss, Objective
from felbo.objectives.checks import NO_LABEL, CheckedLabels, check_model
from felbo.objectives.class_weights import ClassWeights, as_class_weights, weighted_nll
from felbo.objectives.forward import checked


def expected_nll(logits: Tensor, labels: Tensor, class_weights: Tensor | None = None) -> Tensor:
    """Mean over draws and items of ``−log softmax_y`` for ``logits [M, B, K]``, ``labels [B]``.

    With ``class_weights [K]``, of ``−w_y log softmax_y``.
    """
    with CheckedLabels(labels, logits):
        if class_weights is not None:
            return weighted_nll(logits, labels.long(), class_weights)
        return fused.cross_entropy(logits, labels.long(), ignore_index=NO_LABEL)


class NegativeLogLikelihood(Objective):
    """``mean over batch and draws of −log f_y``; add weight decay in the optimiser for MAP.

    Args:
        num_samples: draws per step; ``None`` takes the model's training default.
        class_weights: factor of each class in the likelihood ``[K]``: ``−w_y log f_y``.
    """

    def __init__(
        self, num_samples: int | None = None, *, class_weights: ClassWeights | None = None
    ) -> None:
        self.num_samples = num_samples
        self.class_weights = as_class_weights(class_weights)

    def __call__(self, model: StochasticClassifier, x: Inputs, y: Tensor) -> Loss:
        """Return the loss of ``model`` on inputs ``x [B, ...]`` and labels ``y [B]``."""
        check_model(model)
        nll = expected_nll(
            checked(model(x, self.num_samples), batch_size(x)), y, self.class_weights
        )
        return Loss(total=nll, nll=nll, kl=nll.new_zeros(()))
