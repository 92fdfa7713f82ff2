r"""The KL of draws from a fitted Dirichlet to the prior, and its gradient, in closed form.

With α held constant, the KL depends on the draws only through l̄, the mean of ``log f``. Hence
``∂KL/∂log f_m = (α − β) / M``, and the gradient passes through smoothing and softmax in closed form
too. The value needs neither lnΓ nor the log-density of every draw: with Stirling's formula,

``KL = log B(β) − Σ β l̄ + ½ (K − 1) log(z / 2π) + μ(z) − z D + ½ Σ log ā − Σ μ(α)``.

All of it is in float64, since large terms cancel, and in blocks of points that fit into the cache.
Classes lie along ``axis``, -1 or -2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from felbo.fused.precision import precision
from felbo.fused.short_rows import class_axis
from felbo.fused.stirling import stirling_remainder

# Values per block and thread: temporaries of this size fit into the cache.
_BLOCK = 393216


class Divergence(NamedTuple):
    """Draws, fit and KL of some points.

    Attributes:
        probs: draws before smoothing ``[M, S, K]``.
        f: draws after smoothing ``[M, S, K]``.
        alpha: fitted concentration ``[S, K]``.
        value: KL ``[S]``.
    """

    probs: Tensor
    f: Tensor
    alpha: Tensor
    value: Tensor

    def gradient(
        self, beta: Tensor, smoothing: float, axis: int, weight: float = 1.0, plus: float = 0.0
    ) -> Tensor:
        """Return ``weight · M ∂KL/∂logits + plus · p``, in the memory of ``f``.

        The gradient of the NLL is p less one for the label: one pass computes both terms.
        """
        probs, f, alpha, _ = self
        # For a single draw α = N f, and its part is N Σ_k ∂f_k = 0.
        pull = beta * -weight if len(f) == 1 else (alpha - beta).mul_(weight)
        # ∂log f / ∂log p = (1 − γ) p / f = 1 − (γ / K) / f.
        by_log_p = torch.addcdiv(pull, pull, f, value=-smoothing / f.shape[axis], out=f)
        total = by_log_p.sum(axis, keepdim=True)
        return torch.addcmul(by_log_p, probs, plus - total, out=f)


def arranged(values: Tensor, axis: int) -> Tensor:
    """Return ``values [..., S, K]`` or ``[K]`` with the classes at ``axis``, or back again."""
    if axis == -1:
        return values
    return values.unsqueeze(-1) if values.dim() == 1 else values.transpose(-1, -2)


class Block(NamedTuple):
    """Draws and β of some points, with the classes at ``axis``; the points are a slice of all."""

    points: slice
    logits: Tensor
    beta: Tensor
    axis: int


def blocks(logits: Tensor, beta: Tensor) -> list[Block]:
    """Divide the points of ``logits [M, S, K]``, with their β, into blocks that fit the cache."""
    axis, total = class_axis(logits), logits.shape[1]
    count = math.ceil(logits.numel() / (_BLOCK * torch.get_num_threads()))
    if count <= 1 or logits.device.type != "cpu":
        return [Block(slice(0, total), arranged(logits, axis), arranged(beta, axis), axis)]
    size = math.ceil(total / count)
    found = []
    for start in range(0, total, size):
        points = slice(start, min(start + size, total))
        own = beta if beta.dim() == 1 else beta[points]
        found.append(Block(points, arranged(logits[:, points], axis), arranged(own, axis), axis))
    return found


def divergence(block: Block, max_precision: float, smoothing: float) -> Divergence:
    """Compute the KL of the points of a block from the prior, in float64."""
    _, logits, beta, axis = block
    probs = logits.softmax(axis, dtype=torch.float64)
    draws, classes = len(probs), probs.shape[axis]
    # γ / K + (1 − γ) p, in one pass.
    f = torch.rsub(probs, smoothing / classes, alpha=smoothing - 1.0)
    log_beta = _log_normalizer(beta, axis)
    if draws == 1:
        mean = f[0]
        alpha = mean * max_precision
        each = (alpha - beta).mul_(mean.log()).sub_(torch.lgamma(alpha))
        value = each.sum(axis).add_(log_beta + math.lgamma(max_precision))
        return Divergence(probs, f, alpha, value)
    mean, mean_log = f.mean(0), _mean_log(f, smoothing / classes)
    log_mean = mean.log()
    spread = (log_mean - mean_log).mul_(mean).sum(axis).clamp_(min=0.0)
    z = precision(mean, spread, float(classes), max_precision, axis)
    alpha = mean.mul_(z.unsqueeze(axis))
    value = (0.5 * log_mean.sum(axis)).addcmul_(z, spread, value=-1.0).add_(log_beta)
    value += (z * (0.5 / math.pi)).log_().mul_(0.5 * (classes - 1))
    value += stirling_remainder(z)
    value -= stirling_remainder(alpha).addcmul_(beta, mean_log).sum(axis)
    return Divergence(probs, f, alpha, value)


def _log_normalizer(beta: Tensor, axis: int) -> Tensor | float:
    """Return log B(β), ``[S]``, or a number if β is the same at every point.

    A few numbers are summed faster in Python.
    """
    if beta.numel() > 16 or beta.numel() > beta.shape[axis] or beta.device.type != "cpu":
        return torch.lgamma(beta).sum(axis) - torch.lgamma(beta.sum(axis))
    values = beta.flatten().tolist()
    return sum(map(math.lgamma, values)) - math.lgamma(sum(values))


def _mean_log(f: Tensor, smallest: float) -> Tensor:
    """Return the mean of ``log f [M, ...]`` over draws, from the logarithm of their product.

    A product replaces M logarithms by one. As many factors are multiplied as cannot underflow.
    """
    many = max(int(-300.0 / math.log10(smallest)), 1)
    first, *others = (part.prod(0).log_() for part in torch.split(f, many))
    for part in others:
        first += part
    return first.div_(len(f))
