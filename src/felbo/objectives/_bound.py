r"""The bound as one operation on the logits, with its gradient in closed form.

The two terms depend on the draws through the likelihood of the labels and through the statistics ā
(mean of the smoothed probabilities f) and l̄ (mean of ``log f``) only. So does their gradient: with
``g = ∂KL/∂f``, the derivative of the softmax gives ``p_k (g_k − Σ_j p_j g_j)`` for the divergence
and ``p_k − [k = y]`` for the likelihood. It is computed together with the value, while all that it
needs is at hand. Left to autograd, the way from logits to loss and back takes some twenty-five
passes over ``[M, S, K]``; here it is ten.

In the training of a small network the number of operations counts more than their size, hence
forms such as ``torch.add(constant, x, alpha=a)`` below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from felbo._constants import scalar
from felbo._softmax import row_sums, softmax_and_log
from felbo.objectives._checks import check_label_range
from felbo.objectives.loss import Loss


class Divergence(NamedTuple):
    """A divergence that depends on the draws through their statistics, and its derivatives.

    Attributes:
        value: a scalar, the mean over the measurement points.
        by_mean: derivative by ā of S times the value, ``[S, K]``; ``None`` where that is zero.
        by_mean_log: derivative by l̄ of S times the value, ``[S, K]``, or ``[K]`` for all points.

    Both derivatives have the dtype of the logits.
    """

    value: Tensor
    by_mean: Tensor | None
    by_mean_log: Tensor


# (ā [S, K], l̄ [S, K]) of the measurement points -> Divergence; called without autograd.
DivergenceOf = Callable[[Tensor, Tensor], Divergence]


def bound(
    logits: Tensor,
    labels: Tensor,
    points: int,
    smoothing: float,
    weight: float,
    divergence_of: DivergenceOf,
) -> Loss:
    """Return ``mean −log softmax_y + weight · divergence``, differentiable once in the logits.

    Only ``total`` has a gradient.

    Args:
        logits: of the draws, for the batch and the measurement points together ``[M, B + …, K]``.
        labels: of the first B items ``[B]``; may be empty.
        points: S; the last S items are measurement points.
        smoothing: γ of ``f = (1 − γ) softmax + γ / K``, for the divergence only.
        weight: of the divergence.
        divergence_of: the divergence at the measurement points, from the statistics of the draws.
    """
    draws, items, classes = logits.shape
    batch, first = len(labels), items - points
    with torch.no_grad():
        probs, log_probs = softmax_and_log(logits)
        index = (labels if labels.dtype == torch.int64 else labels.long()).view(1, batch, 1)
        index = index.expand(draws, batch, 1) if draws > 1 else index
        nll = _mean_surprise(probs, log_probs, index) if batch else probs.new_zeros(())

        at_points = probs[:, first:] if first else probs
        f = torch.lerp(at_points, scalar(1.0 / classes, probs), smoothing)
        log_f = f.log()
        mean, mean_log = (f[0], log_f[0]) if draws == 1 else (f.mean(0), log_f.mean(0))
        kl, by_mean, by_mean_log = divergence_of(mean, mean_log)
        kl = kl.to(probs.dtype)

        # The gradient: p_k g_k first, scaled, then minus p_k times its sum over the classes.
        scale = weight * (1.0 - smoothing) / (draws * points)
        slope = torch.addcdiv(scalar(0.0, probs), at_points, f, value=scale)
        slope.mul_(by_mean_log)
        if by_mean is not None:
            slope.addcmul_(at_points, by_mean, value=scale)
        level = row_sums(slope)
        if first:
            # Items of the batch that are no measurement points have no divergence.
            level, slope = (pad(part, (0, 0, first, 0)) for part in (level, slope))
        if batch:
            share = scalar(-1.0 / index.numel(), probs)
            _head(level, batch).add_(share)
            _head(slope, batch).scatter_add_(-1, index, share.expand(index.shape))
        gradient = slope.addcmul_(probs, level, value=-1.0)
        total = torch.add(nll, kl, alpha=weight)
    return Loss(_with_gradient(total, logits, gradient), nll, kl)


def _head(values: Tensor, batch: int) -> Tensor:
    return values if values.shape[1] == batch else values[:, :batch]


def _mean_surprise(probs: Tensor, log_probs: Tensor | None, index: Tensor) -> Tensor:
    """Mean of ``−log p`` at the labels ``index [M, B, 1]`` of the first B items."""
    source = _head(probs if log_probs is None else log_probs, index.shape[1])
    try:
        picked = source.gather(-1, index)
    except RuntimeError:
        # Looking through the labels before every step would cost more than picking them.
        check_label_range(index[0, :, 0], source.shape[-1])
        raise
    logs = picked.log_() if log_probs is None else picked
    return logs.sum().mul_(-1.0 / index.numel())


class _Known(torch.autograd.Function):
    """A number whose gradient was computed along with it."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "This loss can be differentiated once: create_graph=True would leave out how its "
                "gradient changes with the logits. Write the loss with torch's own functions where "
                "second derivatives are needed."
            )
        (gradient,) = ctx.saved_tensors
        return grad * gradient, None, None


def _with_gradient(value: Tensor, logits: Tensor, gradient: Tensor) -> Tensor:
    result: Tensor = _Known.apply(logits, value, gradient.to(logits.dtype))  # type: ignore[no-untyped-call]
    return result
