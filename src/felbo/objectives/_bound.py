r"""The bound as one operation on the logits, with its gradient in closed form.

With the fitted concentration held constant, the divergence depends on the draws only through l̄,
the mean of ``log f`` over the smoothed draws f. With ``g = ∂loss/∂log p``, the derivative of the
softmax gives ``g_k − p_k Σ_j g_j``. It is computed together with the value, while all that it needs
is at hand; left to autograd, the way back would take more passes over ``[M, S, K]``.

In the training of a small network the number of operations counts more than their size, hence
forms such as ``torch.add(constant, x, alpha=a)`` below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from felbo._autograd import without_autograd
from felbo._constants import filled, scalar
from felbo._softmax import row_sums, softmax_and_log
from felbo.objectives._checks import check_label_range
from felbo.objectives.loss import Loss


class Divergence(NamedTuple):
    """A divergence at the measurement points, and one of its derivatives.

    Attributes:
        value: a scalar, the mean over the measurement points.
        by_mean_log: derivative of S times the value by l̄, if it depends on the draws only through
            that; a number or what broadcasts to ``[S, K]``.
        by_draws: otherwise, derivative of S times the value by the draws ``[M, S, K]``.

    All have the dtype of the draws.
    """

    value: Tensor
    by_mean_log: Tensor | float | None
    by_draws: Tensor | None = None


# The smoothed draws f [M, S, K] at the measurement points -> Divergence; called without autograd.
DivergenceOf = Callable[[Tensor], Divergence]


def bound(
    logits: Tensor,
    labels: Tensor,
    points: int,
    smoothing: float,
    weight: float,
    divergence_of: DivergenceOf,
    *,
    by_autograd: bool = False,
) -> Loss:
    """Return ``mean −log softmax_y + weight · divergence``, differentiable once in the logits.

    Only ``total`` has a gradient.

    Args:
        logits: of the draws, for the batch and the measurement points together ``[M, B + …, K]``.
        labels: of the first B items ``[B]``; may be empty.
        points: S; the last S items are measurement points.
        smoothing: γ of ``f = (1 − γ) softmax + γ / K``, for the divergence only.
        weight: of the divergence.
        divergence_of: the divergence at the measurement points, from f.
        by_autograd: whether that differentiates on its way.
    """
    draws, items, classes = logits.shape
    batch, first = labels.shape[0], items - points
    differentiable = logits.requires_grad and torch.is_grad_enabled()
    with torch.no_grad() if by_autograd else without_autograd():
        probs, log_probs = softmax_and_log(logits)
        index = _index(labels, draws)
        nll = _mean_surprise(probs, log_probs, index) if batch else probs.new_zeros(())

        at_points = probs[:, first:] if first else probs
        f = torch.add(scalar(smoothing / classes, probs), at_points, alpha=1.0 - smoothing)
        kl, by_mean_log, by_draws = divergence_of(f)
        total = torch.add(nll, kl, alpha=weight)
        if not differentiable:
            return Loss(total, nll, kl)

        # First by log p.
        if by_draws is not None:
            slope = (at_points * by_draws).mul_((1.0 - smoothing) * weight / points)
        else:
            assert by_mean_log is not None, "a divergence comes with one of its derivatives"
            # Each log f has a share in l̄, and moves by (1 − γ) p / f = 1 − (γ / K) / f.
            share = weight / (draws * points)
            by_log = (
                scalar(by_mean_log * share, probs)
                if isinstance(by_mean_log, float)
                else by_mean_log * scalar(share, probs)
            )
            slope = torch.addcdiv(by_log, by_log, f, value=-smoothing / classes)
        if first:
            # Items of the batch that are no measurement points have no divergence.
            slope = pad(slope, (0, 0, first, 0))
        if batch:
            at_label = filled(-1.0 / index.numel(), index.shape, probs)
            _head(slope, batch).scatter_add_(-1, index, at_label)
        # Then by the logits.
        gradient = slope.addcmul_(probs, row_sums(slope), value=-1.0)
    return Loss(_with_gradient(total, logits, gradient), nll, kl)


def _head(values: Tensor, batch: int) -> Tensor:
    return values if values.shape[1] == batch else values[:, :batch]


def _index(labels: Tensor, draws: int) -> Tensor:
    """Labels ``[B]`` as an index ``[M, B, 1]`` into the classes."""
    index = (labels if labels.dtype == torch.int64 else labels.long()).view(1, -1, 1)
    return index.expand(draws, -1, 1) if draws > 1 else index


def _mean_surprise(probs: Tensor, log_probs: Tensor | None, index: Tensor) -> Tensor:
    """Mean of ``−log p`` at the labels of the first B items, given as an index ``[M, B, 1]``."""
    values = _head(probs if log_probs is None else log_probs, index.shape[1])
    try:
        picked = values.gather(-1, index)
    except (IndexError, RuntimeError):
        # Looking through the labels before every step would cost more than picking them.
        check_label_range(index, probs.shape[-1])
        raise
    picked = picked.log_() if log_probs is None else picked
    return torch.dot(picked.view(-1), filled(-1.0 / picked.numel(), (picked.numel(),), picked))


class _Known(torch.autograd.Function):
    """A number whose gradient was computed along with it."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, known: tuple[Tensor, Tensor]) -> Tensor:
        # Value and gradient come as one: a tensor that is given and returned would be copied.
        value, gradient = known
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "This loss can be differentiated once: create_graph=True would leave out how its "
                "gradient changes with the logits. Write the loss with torch's own functions where "
                "second derivatives are needed."
            )
        (gradient,) = ctx.saved_tensors
        # Nearly always the loss is what backward starts from. To ask an accelerator would be to
        # wait for it.
        if grad.device.type == "cpu" and grad.item() == 1.0:
            return gradient, None
        return grad * gradient, None


def _with_gradient(value: Tensor, logits: Tensor, gradient: Tensor) -> Tensor:
    if gradient.dtype != logits.dtype:
        gradient = gradient.to(logits.dtype)
    result: Tensor = _Known.apply(logits, (value, gradient))  # type: ignore[no-untyped-call]
    return result
