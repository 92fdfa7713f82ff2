"""Decompose the entropy of a prediction into aleatoric and epistemic uncertainty."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from felbo._numbers import floating_dtype


class Uncertainty(NamedTuple):
    """Uncertainty of every item in nats, each ``[...]``; ``total = aleatoric + epistemic``.

    Attributes:
        total: Entropy of the mean prediction.
        aleatoric: Expected entropy of the prediction, which more training data cannot reduce.
        epistemic: Mutual information of label and prediction, non-negative, which they can reduce.
    """

    total: Tensor
    aleatoric: Tensor
    epistemic: Tensor


def uncertainty(concentration: Tensor) -> Uncertainty:
    """Decompose the uncertainty of a predictive Dirichlet.

    ``total = −Σ_k ā_k log ā_k``,  ``aleatoric = ψ(z + 1) − Σ_k ā_k ψ(α_k + 1)``,
    ``epistemic = total − aleatoric``, with ``ā = α / z`` and ``z = Σ_k α_k``.

    Args:
        concentration: α, ``[..., K]``; zero for classes of probability 0.

    Returns:
        Three tensors ``[...]``.

    Example:
        >>> uncertainty(torch.tensor([1.0, 1.0])).aleatoric
        tensor(0.5000)
    """
    alpha = concentration.double()
    precision = alpha.sum(-1, keepdim=True)
    mean = alpha / precision
    entropy_terms = torch.digamma(precision + 1) - torch.digamma(alpha + 1)
    return _split(_entropy(mean), (mean * entropy_terms).sum(-1), floating_dtype(concentration))


def sample_uncertainty(probs: Tensor) -> Uncertainty:
    """Decompose the uncertainty of draws, with expectations estimated by means over the draws.

    ``total = −Σ_k ā_k log ā_k``,  ``aleatoric = −mean_m Σ_k f_mk log f_mk``,
    ``epistemic = total − aleatoric``, with ``ā = mean_m f_m``.

    Args:
        probs: Draws on the simplex, ``[M, ..., K]``.

    Returns:
        Three tensors ``[...]``.
    """
    draws = probs.double()
    return _split(_entropy(draws.mean(0)), _entropy(draws).mean(0), floating_dtype(probs))


def _entropy(probs: Tensor) -> Tensor:
    return -torch.xlogy(probs, probs).sum(-1)


def _split(total: Tensor, aleatoric: Tensor, dtype: torch.dtype) -> Uncertainty:
    # In float64 the difference is accurate up to precisions of 1e10; only its rounding can be
    # below zero.
    epistemic = (total - aleatoric).clamp(min=0)
    return Uncertainty(total.to(dtype), aleatoric.to(dtype), epistemic.to(dtype))
