"""Log-density, log-normaliser and KL divergence of Dirichlet distributions."""

from __future__ import annotations

import torch
from torch import Tensor


def log_normalizer(concentration: Tensor) -> Tensor:
    r"""Logarithm of the normalising constant, :math:`\sum_k \ln\Gamma(\alpha_k) - \ln\Gamma(z)`.

    Args:
        concentration: :math:`\alpha`, ``[..., K]``.

    Returns:
        ``[...]``.
    """
    return torch.lgamma(concentration).sum(-1) - torch.lgamma(concentration.sum(-1))


def log_prob(probs: Tensor, concentration: Tensor) -> Tensor:
    r"""Log-density :math:`\sum_k (\alpha_k - 1) \log f_k - \log B(\alpha)` of draws.

    Args:
        probs: Draws on the simplex, ``[M, ..., K]``.
        concentration: :math:`\alpha`, ``[..., K]``.

    Returns:
        ``[M, ...]``, differentiable in both arguments.
    """
    return torch.xlogy(concentration - 1, probs).sum(-1) - log_normalizer(concentration)


def kl_divergence(concentration_q: Tensor, concentration_p: Tensor) -> Tensor:
    r"""Closed-form :math:`\mathrm{KL}[\mathrm{Dir}(\alpha) \| \mathrm{Dir}(\beta)]`.

    Args:
        concentration_q: :math:`\alpha`, ``[..., K]``.
        concentration_p: :math:`\beta`, ``[..., K]``, broadcast against the first.

    Returns:
        ``[...]``.
    """
    q, p = torch.broadcast_tensors(concentration_q, concentration_p)
    total = q.sum(-1, keepdim=True)
    mean_log = torch.digamma(q) - torch.digamma(total)
    return log_normalizer(p) - log_normalizer(q) + ((q - p) * mean_log).sum(-1)
