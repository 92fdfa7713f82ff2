"""The function-space bound on the batch, from one softmax."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from felbo.fused.draws import Block, arranged, blocks, divergence
from felbo.fused.kl import check_applies, function_space_kl
from felbo.fused.short_rows import cross_entropy

# A smaller probability may have lost digits to underflow.
_SMALLEST = 1e-300


class Bound(NamedTuple):
    """Scalars in the precision of the logits, twice differentiable in them.

    Attributes:
        total: ``nll + kl_weight · kl``.
        nll: mean negative log-likelihood over draws and points.
        kl: mean KL over points.
    """

    total: Tensor
    nll: Tensor
    kl: Tensor


def bound(
    logits: Tensor,
    labels: Tensor,
    beta: Tensor,
    max_precision: float,
    kl_weight: float,
    smoothing: float = 1e-4,
    gradient: Literal["partial", "total"] = "partial",
) -> Bound:
    """Return ``cross_entropy``, the mean of ``function_space_kl``, and their weighted sum.

    The gradient of the sum is computed in the forward pass; those of its terms, which training does
    not need, only if they are requested.

    Args:
        logits: draws ``[M, B, K]``.
        labels: ``[B]``, int64.
        beta: concentration of the prior ``[B, K]`` or ``[K]``, a constant.
        max_precision: upper bound of the fitted precision.
        kl_weight: weight of the KL in the sum.
        smoothing: γ > 0 of ``f = (1 − γ) softmax + γ / K``, in the KL only.
        gradient: must be ``"partial"``; ``"total"`` has no such closed form.
    """
    check_applies(logits, max_precision, smoothing, gradient)
    settings = max_precision, smoothing, float(kl_weight)
    return Bound(*_Bound.apply(logits, labels, beta.double(), *settings))  # type: ignore[no-untyped-call]


class _Bound(torch.autograd.Function):
    """The bound, with the gradient of the weighted sum computed in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        labels: Tensor,
        beta: Tensor,
        max_precision: float,
        smoothing: float,
        kl_weight: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.settings = max_precision, smoothing, kl_weight
        ctx.set_materialize_grads(False)
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        parts = []
        for block in blocks(logits, beta):
            own = None if gradient is None else gradient[:, block.points]
            parts.append(_terms(block, labels[block.points], own, *ctx.settings))
        (log_likelihood, kl), *others = parts
        for part in others:
            log_likelihood, kl = log_likelihood + part[0], kl + part[1]
        ctx.save_for_backward(logits, labels, beta, gradient)
        draws, points, _ = logits.shape
        dtype = torch.promote_types(logits.dtype, torch.float32)
        nll, kl = (log_likelihood / (-draws * points)).to(dtype), (kl / points).to(dtype)
        return torch.add(nll, kl, alpha=kl_weight), nll, kl

    @staticmethod
    def backward(ctx: Any, *by: Tensor | None) -> tuple[Tensor | None, ...]:
        logits, labels, beta, gradient = ctx.saved_tensors
        by_total, *by_terms = by
        if torch.is_grad_enabled() or any(each is not None for each in by_terms):
            found = _with_graph(logits, labels, beta, by, *ctx.settings)
        else:
            found = gradient * (by_total / (logits.shape[0] * logits.shape[1]))
        return found, None, None, None, None, None


def _terms(
    block: Block,
    labels: Tensor,
    gradient: Tensor | None,
    max_precision: float,
    smoothing: float,
    kl_weight: float,
) -> tuple[Tensor, Tensor]:
    """Return log-likelihood and KL of a block, sums over its points in float64.

    ``gradient [M, S, K]``, if it is not None, is set to that of M S times the weighted sum.
    """
    _, logits, beta, axis = block
    found = divergence(block, max_precision, smoothing)
    index = labels.unsqueeze(axis).expand(len(logits), -1, -1)
    chosen = found.probs.gather(axis, index)
    log_chosen = chosen.log()
    if float(chosen.amin()) < _SMALLEST:
        log_chosen = logits.log_softmax(axis, dtype=torch.float64).gather(axis, index)
    if gradient is not None:
        by_logits = found.gradient(beta, smoothing, axis, kl_weight, plus=1.0)
        by_logits.scatter_(axis, index, -1.0, reduce="add")
        gradient.copy_(arranged(by_logits, axis))
    return log_chosen.sum(), found.value.sum()


def _with_graph(
    logits: Tensor,
    labels: Tensor,
    beta: Tensor,
    by: tuple[Tensor | None, ...],
    max_precision: float,
    smoothing: float,
    kl_weight: float,
) -> Tensor:
    """Return the gradient by the logits from the gradients by the three results.

    It has a graph of its own where a second derivative may be asked for.
    """
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        source = logits if again else logits.detach().requires_grad_()
        kl = function_space_kl(source, beta, max_precision, smoothing).mean()
        # In float32, 1 − p would be rounded to zero where p is near one.
        nll = cross_entropy(source.double(), labels).to(kl.dtype)
        results = (nll + kl_weight * kl, nll, kl)
        pairs = [pair for pair in zip(results, by, strict=True) if pair[1] is not None]
        outputs, gradients = zip(*pairs, strict=True)
        (found,) = torch.autograd.grad(outputs, source, gradients, create_graph=again)
    return found
