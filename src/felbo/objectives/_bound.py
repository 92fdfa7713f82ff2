r"""The bound as one operation on the logits, with its gradient in closed form.

The two terms depend on the draws through the likelihood of the labels and through the statistics ā
(mean of the smoothed probabilities f) and l̄ (mean of ``log f``) only. So does their gradient: with
``g = ∂KL/∂f``, the derivative of the softmax gives ``p_k (g_k − Σ_j p_j g_j)`` for the divergence
and ``p_k − [k = y]`` for the likelihood. Left to autograd, the way from logits to loss and back
takes some twenty-five passes over ``[M, S, K]`` and fifty small operations; here it is half of
both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Divergence(NamedTuple):
    """A divergence that depends on the draws through their statistics, and its derivatives.

    Attributes:
        value: a scalar.
        by_mean: derivative by ā ``[S, K]``; ``None`` where that is zero.
        by_mean_log: derivative by l̄ ``[S, K]``.
    """

    value: Tensor
    by_mean: Tensor | None
    by_mean_log: Tensor


# (ā [S, K], l̄ [S, K]) of the measurement points -> Divergence; called without autograd.
DivergenceOf = Callable[[Tensor, Tensor], Divergence]


class Bound(NamedTuple):
    """The loss and its two terms, all scalars; only ``total`` has a gradient."""

    total: Tensor
    nll: Tensor
    kl: Tensor


class _Bound(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        labels: Tensor,
        points: int,
        smoothing: float,
        weight: float,
        divergence_of: DivergenceOf,
    ) -> tuple[Tensor, Tensor, Tensor]:
        batch, first = len(labels), logits.shape[1] - points
        probs, scores, offset = _softmax(logits, batch)
        index = labels.view(1, batch, 1).expand(len(logits), batch, 1)
        surprise = offset - scores.gather(-1, index)
        nll = surprise.mean() if batch else surprise.sum()

        # f = (1 − γ) (p + c): the factor is put back where there are [S, K] values only.
        at_points = probs[:, first:]
        shifted = at_points + smoothing / (1.0 - smoothing) / logits.shape[-1]
        mean, mean_log = _mean(shifted), _mean(shifted.log())
        kl, by_mean, by_mean_log = divergence_of(
            mean * (1.0 - smoothing), mean_log + math.log1p(-smoothing)
        )
        kl = kl.to(logits.dtype)
        slope = torch.div(at_points, shifted, out=shifted).mul_(by_mean_log)
        if by_mean is not None:
            slope.addcmul_(at_points, by_mean, value=1.0 - smoothing)
        ctx.save_for_backward(probs, slope, index)
        ctx.scale = weight / len(logits)
        ctx.mark_non_differentiable(nll, kl)
        ctx.set_materialize_grads(False)
        return torch.add(nll, kl, alpha=weight), nll, kl

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        probs, slope, index = ctx.saved_tensors
        batch, first = index.shape[1], probs.shape[1] - slope.shape[1]
        step = slope * (grad * ctx.scale)
        level = step.sum(-1, keepdim=True)
        if first:
            # Items of the batch that are no measurement points have no divergence.
            level = torch.nn.functional.pad(level, (0, 0, first, 0))
            step = torch.nn.functional.pad(step, (0, 0, first, 0))
        if batch:
            share = grad / index.numel()
            level[:, :batch].sub_(share)
            step[:, :batch].scatter_add_(-1, index, share.neg_().expand(index.shape))
        return step.addcmul_(probs, level, value=-1.0), None, None, None, None, None


def _softmax(logits: Tensor, batch: int) -> tuple[Tensor, Tensor, Tensor | float]:
    """Softmax ``[M, S, K]``; for the first B items also ``−log softmax`` as ``offset − scores``.

    ``torch.log_softmax`` runs value by value on a CPU when a row is shorter than a vector register
    (16 floats), and then costs three to nine times the three reductions that it is made of.
    """
    if logits.shape[-1] >= 16 or logits.device.type != "cpu":
        log_probs = logits.log_softmax(-1)
        return log_probs.exp(), log_probs[:, :batch], 0.0
    top = logits.amax(-1, keepdim=True)
    probs = (logits - top).exp_()
    total = probs.sum(-1, keepdim=True)
    probs.div_(total)
    return probs, logits[:, :batch], total[:, :batch].log().add_(top[:, :batch])


def _mean(draws: Tensor) -> Tensor:
    return draws[0] if len(draws) == 1 else draws.mean(0)


def bound(
    logits: Tensor,
    labels: Tensor,
    points: int,
    smoothing: float,
    weight: float,
    divergence_of: DivergenceOf,
) -> Bound:
    """Return ``mean −log softmax_y + weight · divergence``, differentiable once in the logits.

    Args:
        logits: of the draws, for the batch and the measurement points together ``[M, B + …, K]``.
        labels: of the first B items ``[B]``; may be empty.
        points: S; the last S items are measurement points.
        smoothing: γ of ``f = (1 − γ) softmax + γ / K``, for the divergence only.
        weight: of the divergence.
        divergence_of: the divergence at the measurement points, from the statistics of the draws.
    """
    parts = (logits, labels.long(), points, smoothing, weight, divergence_of)
    return Bound(*_Bound.apply(*parts))  # type: ignore[no-untyped-call]
