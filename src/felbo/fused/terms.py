"""Both terms of the function-space bound on the batch, from one softmax."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from felbo.fused.draws import Block, arranged, blocks, divergence
from felbo.fused.kl import check_applies, function_space_kl
from felbo.fused.short_rows import class_axis, cross_entropy

# A smaller probability may have lost digits to underflow.
_SMALLEST = 1e-300


def nll_and_kl(
    logits: Tensor,
    labels: Tensor,
    beta: Tensor,
    max_precision: float,
    smoothing: float = 1e-4,
    gradient: Literal["partial", "total"] = "partial",
) -> tuple[Tensor, Tensor]:
    """Return the means of NLL and KL, equal to ``cross_entropy`` and ``function_space_kl.mean()``.

    Args:
        logits: draws ``[M, B, K]``.
        labels: ``[B]``, int64.
        beta: concentration of the prior ``[B, K]`` or ``[K]``, a constant.
        max_precision: upper bound of the fitted precision.
        smoothing: γ > 0 of ``f = (1 − γ) softmax + γ / K``, in the KL only.
        gradient: must be ``"partial"``; ``"total"`` has no such closed form.

    Returns:
        Two scalars in the precision of the logits, twice differentiable in them.
    """
    check_applies(logits, max_precision, smoothing, gradient)
    nll, kl = _Terms.apply(logits, labels, beta.double(), max_precision, smoothing)  # type: ignore[no-untyped-call]
    return nll, kl


class _Terms(torch.autograd.Function):
    """Both terms, with gradients computed in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        labels: Tensor,
        beta: Tensor,
        max_precision: float,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        ctx.settings = max_precision, smoothing
        wanted = ctx.needs_input_grad[0]
        first, *others = blocks(logits, beta)
        ctx.arranged = not others
        if not others:
            likelihood, kl, gradients = _terms(first, labels, wanted, *ctx.settings)
        else:
            likelihood, kl = logits.new_zeros(2, dtype=torch.float64)
            gradients = tuple(torch.empty_like(logits) for _ in range(2 if wanted else 0))
            for block in (first, *others):
                part = _terms(block, labels[block.points], wanted, *ctx.settings)
                likelihood, kl = likelihood + part[0], kl + part[1]
                for whole, values in zip(gradients, part[2], strict=True):
                    whole[:, block.points] = arranged(values, block.axis)
        ctx.save_for_backward(logits, labels, beta, *gradients)
        draws, points, _ = logits.shape
        dtype = torch.promote_types(logits.dtype, torch.float32)
        return (likelihood / (-draws * points)).to(dtype), (kl / points).to(dtype)

    @staticmethod
    def backward(ctx: Any, by_nll: Tensor, by_kl: Tensor) -> tuple[Tensor | None, ...]:
        logits, labels, beta, nll, kl = ctx.saved_tensors
        if torch.is_grad_enabled():
            # Double backward: the gradient with a graph.
            terms = (
                cross_entropy(logits, labels),
                function_space_kl(logits, beta, *ctx.settings).mean(),
            )
            (found,) = torch.autograd.grad(terms, logits, (by_nll, by_kl), create_graph=True)
            return found, None, None, None, None
        count = logits.shape[0] * logits.shape[1]
        found = (nll * (by_nll / count)).addcmul_(kl, by_kl / count)
        if ctx.arranged:
            found = arranged(found, class_axis(logits)).to(logits.dtype)
        return found, None, None, None, None


def _terms(
    block: Block, labels: Tensor, with_gradients: bool, max_precision: float, smoothing: float
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Return log-likelihood and KL of a block, sums over its points; gradients by the logits.

    Everything is in float64. The gradients are those of the NLL and of M times the KL.
    """
    _, logits, beta, axis = block
    found = divergence(block, max_precision, smoothing)
    index = labels.unsqueeze(axis).expand(len(logits), -1, -1)
    chosen = found.probs.gather(axis, index)
    log_chosen = chosen.log()
    if float(chosen.amin()) < _SMALLEST:
        log_chosen = logits.log_softmax(axis, dtype=torch.float64).gather(axis, index)
    log_likelihood, kl = log_chosen.sum(), found.value.sum()
    if not with_gradients:
        return log_likelihood, kl, ()
    by_kl = found.gradient(beta, smoothing, axis)
    by_nll = found.probs.scatter_(axis, index, chosen.sub_(1.0))
    return log_likelihood, kl, (by_nll, by_kl)
