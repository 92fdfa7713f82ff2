"""How uncertain a prediction is, and why: entropy of the mean split into its two parts."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Uncertainty(NamedTuple):
    """Uncertainty of every item in nats, each ``[...]``; ``total = aleatoric + epistemic``.

    Attributes:
        total: Entropy of the mean prediction.
        aleatoric: Expected entropy of a prediction.
        epistemic: Mutual information between label and prediction, never negative.
    """

    total: Tensor
    aleatoric: Tensor
    epistemic: Tensor


def _entropy(probs: Tensor) -> Tensor:
    return -torch.xlogy(probs, probs).sum(-1)


def uncertainty(concentration: Tensor) -> Uncertainty:
    r"""Uncertainty of a predictive Dirichlet.

    Args:
        concentration: :math:`\alpha`, ``[..., K]``.

    Returns:
        Three tensors ``[...]``.
    """
    precision = concentration.sum(-1, keepdim=True)
    mean = concentration / precision
    expected = torch.digamma(precision + 1) - torch.digamma(concentration + 1)
    aleatoric = (mean * expected).sum(-1)
    total = _entropy(mean)
    return Uncertainty(total, aleatoric, (total - aleatoric).clamp(min=0))


def sample_uncertainty(probs: Tensor) -> Uncertainty:
    r"""Uncertainty of plain draws, with means over the draws as expectations.

    Args:
        probs: Draws on the simplex, ``[M, ..., K]``.

    Returns:
        Three tensors ``[...]``.
    """
    total = _entropy(probs.mean(0))
    aleatoric = _entropy(probs).mean(0)
    return Uncertainty(total, aleatoric, (total - aleatoric).clamp(min=0))
