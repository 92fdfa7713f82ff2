"""Function-space KL with a closed-form gradient."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from felbo import dirichlet
from felbo.dirichlet.validation import check_bracket
from felbo.errors import SettingError
from felbo.fused.draws import Block, arranged, blocks, divergence


def function_space_kl(
    logits: Tensor,
    beta: Tensor,
    max_precision: float,
    smoothing: float = 1e-4,
    gradient: Literal["partial", "total"] = "partial",
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
    check_applies(logits, max_precision, smoothing, gradient)
    result: Tensor = _KL.apply(logits, beta.double(), max_precision, smoothing)  # type: ignore[no-untyped-call]
    return result


def check_applies(logits: Tensor, max_precision: float, smoothing: float, gradient: str) -> None:
    """Raise if there is no fused form for these settings."""
    check_bracket(float(logits.shape[-1]), max_precision)
    if gradient != "partial" or not smoothing > 0:
        raise SettingError(
            "The fused form holds α constant and needs smoothing > 0, got "
            f"gradient={gradient!r} and smoothing={smoothing}; use implementation='plain'."
        )


class _KL(torch.autograd.Function):
    """KL with a gradient precomputed in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, beta: Tensor, max_precision: float, smoothing: float
    ) -> Tensor:
        values = []
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        for block in blocks(logits, beta):
            found = divergence(block, max_precision, smoothing)
            values.append(found.value)
            if gradient is not None:
                by_logits = found.gradient(block.beta, smoothing, block.axis)
                gradient[:, block.points] = arranged(by_logits, block.axis)
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
            gradient = _with_graph(logits, beta, *ctx.settings)
        return (grad / len(logits)).unsqueeze(-1) * gradient, None, None, None


def _with_graph(logits: Tensor, beta: Tensor, max_precision: float, smoothing: float) -> Tensor:
    """Return ``M ∂KL/∂logits``, differentiable in the logits with α held constant."""
    with torch.no_grad():
        whole = Block(slice(None), logits, beta, -1)
        pull = divergence(whole, max_precision, smoothing).alpha - beta
    probs = logits.double().softmax(-1)
    f = dirichlet.smooth(probs, smoothing)
    by_log_p = pull * (1.0 - smoothing) * probs / f
    return (by_log_p - probs * by_log_p.sum(-1, keepdim=True)).to(logits.dtype)
