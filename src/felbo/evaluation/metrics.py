"""Accuracy, log-likelihood, calibration and Brier score."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from felbo import dirichlet
from felbo.evaluation.calibration import calibration_error
from felbo.evaluation.checks import probabilities_and_labels
from felbo.evaluation.prediction import Prediction


class Scores(NamedTuple):
    """Measures of probabilistic predictions, each a mean over items.

    Attributes:
        accuracy: per cent of items whose most probable class is right.
        log_likelihood: mean log-probability of the label, in nats, of the smoothed predictive.
        ece: expected calibration error of the top label, 15 bins of equal width, l1.
        brier: mean squared distance to the one-hot label, 0 … 2.
    """

    accuracy: float
    log_likelihood: float
    ece: float
    brier: float


@torch.no_grad()
def score(
    probs: Prediction | Tensor | Any,
    labels: Tensor | Any,
    *,
    smoothing: float = 1e-4,
    bins: int = 15,
) -> Scores:
    """Score predicted class probabilities against labels.

    Args:
        probs: predictive ``[B, K]``, a tensor or array, or the :class:`Prediction` that holds it.
        labels: ``[B]``, integers in 0 … K − 1, a tensor or array.
        smoothing: γ of ``p ← (1 − γ) p + γ / K``, for the log-likelihood only, so that a confident
            mistake contributes −11.5 nats (K = 10) instead of −∞.
        bins: of the calibration error.

    Example:
        >>> import torch
        >>> score(torch.tensor([[0.8, 0.2], [0.4, 0.6]]), torch.tensor([0, 0])).accuracy
        50.0
    """
    probs, labels = probabilities_and_labels(probs, labels)
    classes = probs.shape[-1]
    picked = dirichlet.smooth(probs, smoothing).gather(-1, labels[:, None])
    one_hot = torch.nn.functional.one_hot(labels, classes)
    return Scores(
        accuracy=100.0 * float((probs.argmax(-1) == labels).double().mean()),
        log_likelihood=float(picked.log().mean()),
        ece=calibration_error(probs, labels, bins=bins),
        brier=float((probs - one_hot).square().sum(-1).mean()),
    )
