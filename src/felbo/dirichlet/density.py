"""Log-density, normaliser and KL divergence of Dirichlet distributions.

At the precision of a confident prediction (z = N, tens of thousands) the terms are of the
order of 10⁶ and cancel to a few nats. All of them are therefore summed in float64, and the
result is returned in the dtype of the arguments, for integers in torch's default dtype.
"""

from __future__ import annotations

import torch
from torch import Tensor

from felbo._numbers import floating_dtype
from felbo.errors import ShapeError


def log_normalizer(concentration: Tensor) -> Tensor:
    """Logarithm of the normaliser, ``Σ_k lnΓ(α_k) − lnΓ(z)``.

    To combine it with other large terms, pass float64.

    Args:
        concentration: α, ``[..., K]``, positive.

    Returns:
        ``[...]``, differentiable.
    """
    return _log_normalizer(concentration.double()).to(floating_dtype(concentration))


def log_prob(probs: Tensor, concentration: Tensor) -> Tensor:
    """Log-density of draws, ``Σ_k (α_k − 1) log f_k`` minus :func:`log_normalizer`.

    Args:
        probs: Draws on the simplex, ``[M, ..., K]``.
        concentration: α, ``[..., K]``, positive.

    Returns:
        ``[M, ...]``, differentiable in both arguments.

    Example:
        >>> log_prob(torch.tensor([[0.2, 0.8]]), torch.tensor([1.0, 1.0]))
        tensor([0.])
    """
    _check_classes("probs", probs, "concentration", concentration)
    alpha = concentration.double()
    result = torch.xlogy(alpha - 1, probs.double()).sum(-1) - _log_normalizer(alpha)
    return result.to(floating_dtype(probs, concentration))


def kl_divergence(concentration_q: Tensor, concentration_p: Tensor) -> Tensor:
    """KL divergence ``KL[Dir(α) ‖ Dir(β)]`` in closed form.

    ``lnΓ(Σα) − Σ_k lnΓ(α_k) − lnΓ(Σβ) + Σ_k lnΓ(β_k) + Σ_k (α_k − β_k) (ψ(α_k) − ψ(Σα))``

    Args:
        concentration_q: α, ``[..., K]``, positive.
        concentration_p: β, ``[..., K]``, positive; broadcast against the first.

    Returns:
        ``[...]``, differentiable in both arguments.
    """
    _check_classes("concentration_q", concentration_q, "concentration_p", concentration_p)
    alpha, beta = concentration_q.double(), concentration_p.double()
    mean_log = torch.digamma(alpha) - torch.digamma(alpha.sum(-1, keepdim=True))
    gap = _log_normalizer(beta) - _log_normalizer(alpha)
    result = gap + ((alpha - beta) * mean_log).sum(-1)
    return result.to(floating_dtype(concentration_q, concentration_p))


def _log_normalizer(alpha: Tensor) -> Tensor:
    return torch.lgamma(alpha).sum(-1) - torch.lgamma(alpha.sum(-1))


def _check_classes(name: str, value: Tensor, other_name: str, other: Tensor) -> None:
    # Broadcasting a single class against K would silently give a wrong result.
    if value.shape[-1:] != other.shape[-1:]:
        raise ShapeError(
            f"{name} and {other_name} must have the same number of classes in their last "
            f"dimension, got shapes {list(value.shape)} and {list(other.shape)}."
        )
