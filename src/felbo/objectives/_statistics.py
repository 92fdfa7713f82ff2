r"""What the bound needs of the draws, with a gradient that costs little.

Written with autograd's own operations, the way from logits to the likelihood and the mean of
``log f`` and back takes some twenty-five passes over ``[M, S, K]``. Here it is half as many, and
none of them is a softmax over the last axis, which on a CPU runs value by value when a row is
shorter than a vector register.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class DrawStatistics(NamedTuple):
    """The three quantities that the two terms of the bound depend on.

    Attributes:
        nll: mean over draws and labelled items of ``−log softmax_y``, a scalar.
        mean: ā, mean over draws of the smoothed probabilities f ``[S, K]``.
        mean_log: l̄, mean over draws of ``log f`` ``[S, K]``.
    """

    nll: Tensor
    mean: Tensor
    mean_log: Tensor


class _Statistics(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        draws, batch = len(logits), len(labels)
        top = logits.amax(-1, keepdim=True)
        probs = (logits - top).exp_()
        total = probs.sum(-1, keepdim=True)
        probs.div_(total)
        smoothed = probs * (1.0 - smoothing)
        smoothed.add_(smoothing / logits.shape[-1])
        index = labels.view(1, batch, 1).expand(draws, batch, 1)
        log_normalizer = total[:, :batch].log().add_(top[:, :batch])
        nll = log_normalizer.sub_(logits[:, :batch].gather(-1, index)).mean()
        ctx.save_for_backward(probs, smoothed, index)
        ctx.smoothing = smoothing
        ctx.set_materialize_grads(False)
        if draws == 1:
            return nll, smoothed[0].clone(), smoothed[0].log()
        return nll, smoothed.mean(0), smoothed.log().mean(0)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_nll: Tensor | None, grad_mean: Tensor | None, grad_mean_log: Tensor | None
    ) -> tuple[Tensor, None, None]:
        # With g = ∂/∂f, the derivative of the softmax gives p_k (g_k − Σ_j p_j g_j) for the
        # statistics, and p_k − [k = y] for the likelihood.
        probs, smoothed, index = ctx.saved_tensors
        scale = (1.0 - ctx.smoothing) / len(probs)
        if grad_mean_log is None:
            slope = torch.zeros_like(probs)
        else:
            slope = (grad_mean_log * scale) / smoothed
        if grad_mean is not None:
            slope.add_(grad_mean, alpha=scale)
        slope.mul_(probs)
        level = slope.sum(-1, keepdim=True)
        if grad_nll is None:
            return slope.addcmul_(probs, level, value=-1.0), None, None
        batch = index.shape[1]
        share = grad_nll / index.numel()
        level[:, :batch].sub_(share)
        slope.addcmul_(probs, level, value=-1.0)
        slope[:, :batch].scatter_add_(-1, index, share.neg().expand(index.shape))
        return slope, None, None


def draw_statistics(logits: Tensor, labels: Tensor, smoothing: float) -> DrawStatistics:
    """Reduce logits ``[M, S, K]`` to their :class:`DrawStatistics`, differentiable once.

    Args:
        logits: of the draws.
        labels: of the first B of the S items ``[B]``.
        smoothing: γ of ``f = (1 − γ) softmax + γ / K``.
    """
    found = _Statistics.apply(logits, labels.long(), smoothing)  # type: ignore[no-untyped-call]
    return DrawStatistics(*found)
