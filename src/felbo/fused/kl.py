r"""Function-space KL with a closed-form gradient.

With α held constant, the KL depends on the draws only through l̄, the mean of ``log f``. Hence
``∂KL/∂log f_m = (α − β) / M``, and the gradient passes through smoothing and softmax in closed form
too. The value needs neither lnΓ nor the log-density of every draw: with Stirling's formula,

``KL = log B(β) − Σ β l̄ + ½ (K − 1) log(z / 2π) + μ(z) − z D + ½ Σ log ā − Σ μ(α)``.
"""

from __future__ import annotations

import math
from itertools import repeat
from typing import Any, Literal

import torch
from torch import Tensor

from felbo import dirichlet
from felbo.dirichlet.precision import solve
from felbo.dirichlet.validation import check_bracket
from felbo.fused.softmax import softmax
from felbo.fused.stirling import stirling_remainder, stirling_remainder_of

# Values per block and thread: temporaries of this size fit into the cache.
_BLOCK = 262144


def function_space_kl(
    logits: Tensor,
    beta: Tensor,
    max_precision: float,
    smoothing: float = 1e-4,
    gradient: Literal["partial"] = "partial",
) -> Tensor:
    """Return the KL at each point, equal to the plain ``function_space_kl`` with α held constant.

    Args:
        logits: draws ``[M, S, K]``.
        beta: concentration of the prior ``[S, K]`` or ``[K]``, a constant.
        max_precision: upper bound of the fitted precision.
        smoothing: γ > 0 of ``f = (1 − γ) softmax + γ / K``.
        gradient: must be ``"partial"``; ``"total"`` has no such closed form.

    Returns:
        ``[S]``, float64, twice differentiable in the logits.
    """
    check_bracket(float(logits.shape[-1]), max_precision)
    if gradient != "partial" or not smoothing > 0:
        raise ValueError(
            "The fused form holds α constant and needs smoothing > 0, got "
            f"gradient={gradient!r} and smoothing={smoothing}; use implementation='plain'."
        )
    result: Tensor = _KL.apply(logits, beta.double(), max_precision, smoothing)  # type: ignore[no-untyped-call]
    return result


class _KL(torch.autograd.Function):
    """KL with a gradient precomputed in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, beta: Tensor, max_precision: float, smoothing: float
    ) -> Tensor:
        values, gradients = [], []
        for part, own in _blocks(logits, beta):
            probs, f, alpha, value = _divergence(part, own, max_precision, smoothing)
            values.append(value)
            if ctx.needs_input_grad[0]:
                # For a single draw α = N f, and its contribution is N Σ_k ∂f_k = 0.
                by_log_f = -own if len(f) == 1 else (alpha - own) / len(f)
                gradients.append(_gradient(probs, f, by_log_f, smoothing).to(logits.dtype))
        if gradients:
            ctx.save_for_backward(logits, beta, _joined(gradients, 1))
        ctx.settings = max_precision, smoothing
        return _joined(values, 0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        logits, beta, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():
            # Double backward: recompute the gradient with a graph in which α is constant.
            max_precision, smoothing = ctx.settings
            with torch.no_grad():
                alpha = _divergence(logits, beta, max_precision, smoothing)[2]
            probs = logits.double().softmax(-1)
            f = dirichlet.smooth(probs, smoothing)
            gradient = _gradient(probs, f, (alpha - beta) / len(f), smoothing).to(logits.dtype)
        return grad.to(logits.dtype).unsqueeze(-1) * gradient, None, None, None


def _blocks(logits: Tensor, beta: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Split the points into blocks that fit into the cache; one block on an accelerator."""
    draws, points, classes = logits.shape
    size = max(_BLOCK * torch.get_num_threads() // (draws * classes), 1)
    if points <= size or logits.device.type != "cpu":
        return [(logits, beta)]
    priors = torch.split(beta, size) if beta.dim() == 2 else repeat(beta)
    return list(zip(torch.split(logits, size, dim=1), priors, strict=False))


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def _divergence(
    logits: Tensor, beta: Tensor, max_precision: float, smoothing: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the draws before and after smoothing, α ``[S, K]`` and the KL ``[S]``."""
    probs = softmax(logits, dtype=torch.float64)
    draws, _, classes = probs.shape
    f = (probs * (1.0 - smoothing)).add_(smoothing / classes)
    constant = dirichlet.log_normalizer(beta)
    if draws == 1:
        mean = f[0]
        mean_log = mean.log()
        alpha = mean * max_precision
        constant = constant + 0.5 * (classes - 1) * math.log(max_precision / (2.0 * math.pi))
        constant = constant + stirling_remainder_of(max_precision)
        value = torch.add(constant, mean_log.sum(-1), alpha=0.5)
    else:
        mean, mean_log = f.mean(0), f.log().mean(0)
        log_mean = mean.log()
        spread = ((log_mean - mean_log).mul_(mean)).sum(-1)
        lower = float(classes)
        z = solve(mean, spread.clamp_(min=0.0), lower, max_precision, tolerance=1e-2).precision
        alpha = mean * z.unsqueeze(-1)
        value = (0.5 * log_mean.sum(-1)).addcmul_(z, spread, value=-1.0).add_(constant)
        value += (z * (0.5 / math.pi)).log_().mul_(0.5 * (classes - 1))
        value += stirling_remainder(z)
    value -= stirling_remainder(alpha).addcmul_(beta, mean_log).sum(-1)
    return probs, f, alpha, value


def _gradient(probs: Tensor, f: Tensor, by_log_f: Tensor, smoothing: float) -> Tensor:
    """Return ∂KL/∂logits ``[M, S, K]`` from ∂KL/∂log f."""
    # ∂log f / ∂log p = (1 − γ) p / f = 1 − (γ / K) / f.
    by_log_p = torch.addcdiv(by_log_f, by_log_f, f, value=-smoothing / f.shape[-1])
    return torch.addcmul(by_log_p, probs, by_log_p.sum(-1, keepdim=True), value=-1.0)
