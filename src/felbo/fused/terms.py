"""The function-space bound on the batch, from one softmax."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from felbo.fused.draws import Block, arranged, blocks, divergence, joined
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

    The gradient of the sum is computed in the forward pass; those of its terms, which a training
    does not need, when they are asked for.

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
        parts, wanted = blocks(logits, beta), ctx.needs_input_grad[0]
        gradient = torch.empty_like(logits) if wanted and len(parts) > 1 else None
        log_likelihoods, divergences = [], []
        for block in parts:
            log_likelihood, kl, by_logits = _terms(block, labels, wanted, *ctx.settings)
            log_likelihoods.append(log_likelihood)
            divergences.append(kl)
            if by_logits is None:
                continue
            if gradient is None:
                gradient = by_logits.to(logits.dtype)
            else:
                gradient[:, block.points] = by_logits
        ctx.save_for_backward(logits, labels, beta, gradient)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        nll = joined(log_likelihoods, -1).mean(dtype=dtype).neg_()
        kl = joined(divergences, 0).mean(dtype=dtype)
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
    with_gradient: bool,
    max_precision: float,
    smoothing: float,
    kl_weight: float,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return log-likelihood ``[M, S]`` and KL ``[S]`` of the points of a block, in float64.

    The third, if asked for, is the gradient of M S times the weighted sum ``[M, S, K]``.
    """
    points, logits, beta, axis = block
    found = divergence(block, max_precision, smoothing)
    index = labels[points].unsqueeze(axis).expand(len(logits), -1, -1)
    chosen = found.probs.gather(axis, index)
    log_chosen = chosen.log()
    if float(chosen.amin()) < _SMALLEST:
        log_chosen = logits.log_softmax(axis, dtype=torch.float64).gather(axis, index)
    gradient = None
    if with_gradient:
        by_logits = found.gradient(beta, smoothing, axis, kl_weight, plus=1.0)
        by_logits.scatter_(axis, index, -1.0, reduce="add")
        gradient = arranged(by_logits, axis)
    return log_chosen.squeeze(axis), found.value, gradient


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
