r"""Function-space KL with a closed-form gradient.

With α held constant, the KL depends on the draws only through l̄, the mean of ``log f``. Hence
``∂KL/∂log f_m = (α − β) / M``, and the gradient passes through smoothing and softmax in closed form
too. The value needs neither lnΓ nor the log-density of every draw: with Stirling's formula,

``KL = log B(β) − Σ β l̄ + ½ (K − 1) log(z / 2π) + μ(z) − z D + ½ Σ log ā − Σ μ(α)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor

from felbo import dirichlet
from felbo.dirichlet.precision import solve
from felbo.dirichlet.validation import check_bracket
from felbo.errors import SettingError
from felbo.fused.short_rows import class_axis
from felbo.fused.stirling import stirling_remainder

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
        ``[S]`` in the precision of the logits, twice differentiable in them.
    """
    check_bracket(float(logits.shape[-1]), max_precision)
    if gradient != "partial" or not smoothing > 0:
        raise SettingError(
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
        axis = class_axis(logits)
        values = []
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        for points, part, own in _blocks(_arranged(logits, axis), _arranged(beta, axis), axis):
            probs, f, alpha, value = _divergence(part, own, max_precision, smoothing, axis)
            values.append(value)
            if gradient is not None:
                # For a single draw α = N f, and its contribution is N Σ_k ∂f_k = 0.
                by_log_f = -own if len(f) == 1 else (alpha - own) / len(f)
                found = _gradient(probs, f, by_log_f, smoothing, axis)
                gradient[:, points] = _arranged(found, axis)
        if gradient is not None:
            ctx.save_for_backward(logits, beta, gradient)
        ctx.settings = max_precision, smoothing
        value = values[0] if len(values) == 1 else torch.cat(values)
        return value.to(torch.promote_types(logits.dtype, torch.float32))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        logits, beta, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():
            # Double backward: recompute the gradient with a graph in which α is constant.
            max_precision, smoothing = ctx.settings
            with torch.no_grad():
                alpha = _divergence(logits, beta, max_precision, smoothing, -1)[2]
            probs = logits.double().softmax(-1)
            f = dirichlet.smooth(probs, smoothing)
            by_log_f = (alpha - beta) / len(f)
            gradient = _gradient(probs, f, by_log_f, smoothing, -1).to(logits.dtype)
        return grad.unsqueeze(-1) * gradient, None, None, None


def _arranged(values: Tensor, axis: int) -> Tensor:
    """Return ``values [..., S, K]`` or ``[K]`` with the classes at ``axis``, or back again."""
    if axis == -1:
        return values
    return values.unsqueeze(-1) if values.dim() == 1 else values.transpose(-1, -2)


def _blocks(logits: Tensor, beta: Tensor, axis: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield blocks of points that fit into the cache, with their draws and β."""
    along = -3 - axis  # the axis of the points
    points = logits.shape[along]
    size = max(_BLOCK * torch.get_num_threads() * points // max(logits.numel(), 1), 1)
    if points <= size or logits.device.type != "cpu":
        yield slice(None), logits, beta
        return
    for start in range(0, points, size):
        length = min(size, points - start)
        own = beta if beta.numel() == beta.shape[axis] else beta.narrow(along, start, length)
        yield slice(start, start + length), logits.narrow(along, start, length), own


def _divergence(
    logits: Tensor, beta: Tensor, max_precision: float, smoothing: float, axis: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return draws before and after smoothing, α and the KL ``[S]``; classes lie along ``axis``."""
    probs = logits.softmax(axis, dtype=torch.float64)
    draws, classes = len(probs), probs.shape[axis]
    f = (probs * (1.0 - smoothing)).add_(smoothing / classes)
    log_beta = torch.lgamma(beta).sum(axis) - torch.lgamma(beta.sum(axis))
    if draws == 1:
        mean, alpha = f[0], f[0] * max_precision
        each = mean.log().mul_(alpha - beta).sub_(torch.lgamma(alpha))
        return probs, f, alpha, each.sum(axis).add_(log_beta).add_(math.lgamma(max_precision))
    mean, mean_log = f.mean(0), _mean_log(f, smoothing / classes)
    log_mean = mean.log()
    spread = (log_mean - mean_log).mul_(mean).sum(axis).clamp_(min=0.0)
    points = mean.movedim(axis, -1)
    z = solve(points, spread, float(classes), max_precision, tolerance=1e-2).precision
    alpha = mean * z.unsqueeze(axis)
    value = (0.5 * log_mean.sum(axis)).addcmul_(z, spread, value=-1.0).add_(log_beta)
    value += (z * (0.5 / math.pi)).log_().mul_(0.5 * (classes - 1))
    value += stirling_remainder(z)
    value -= stirling_remainder(alpha).addcmul_(beta, mean_log).sum(axis)
    return probs, f, alpha, value


def _mean_log(f: Tensor, smallest: float) -> Tensor:
    """Return the mean of ``log f [M, ...]`` over draws, from the logarithm of their product.

    A product replaces M logarithms by one. As many factors are multiplied as cannot underflow.
    """
    many = max(int(-300.0 / math.log10(smallest)), 1)
    products = [part.prod(0) for part in torch.split(f, many)]
    return sum(part.log_() for part in products) / len(f)  # type: ignore[return-value]


def _gradient(probs: Tensor, f: Tensor, by_log_f: Tensor, smoothing: float, axis: int) -> Tensor:
    """Return ∂KL/∂logits, of the shape of ``f``, from ∂KL/∂log f."""
    # ∂log f / ∂log p = (1 − γ) p / f = 1 − (γ / K) / f.
    by_log_p = torch.addcdiv(by_log_f, by_log_f, f, value=-smoothing / f.shape[axis])
    return torch.addcmul(by_log_p, probs, by_log_p.sum(axis, keepdim=True), value=-1.0)
