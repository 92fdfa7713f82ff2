r"""Gradient of the fitted precision, by the implicit function theorem.

At the maximum :math:`F = G(z, \bar a) / z - D = 0` (see ``_precision``). Since
:math:`\partial_z F = -Q / z^2`,

.. math::
    \frac{\partial z}{\partial \bar a_k}
    = \frac{z^2}{Q} \left( h'(z \bar a_k) - \log \bar a_k + \bar l_k - 1 \right), \qquad
    \frac{\partial z}{\partial \bar l_k} = \frac{z^2}{Q} \bar a_k,
    \qquad h'(x) = (h(x) - q(x)) / x.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from felbo.dirichlet import _special
from felbo.dirichlet._statistics import TINY


class _Precision(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, precision: Tensor, inside: Tensor, mean: Tensor, mean_log: Tensor
    ) -> Tensor:
        ctx.save_for_backward(precision, inside, mean, mean_log)
        return precision.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor, Tensor]:
        precision, inside, mean, mean_log = ctx.saved_tensors
        present = mean > 0
        x = (precision.unsqueeze(-1) * mean).clamp_(min=TINY)
        h, q = _special.h(x), _special.q(x)
        total = torch.where(present, q, 0.0).sum(-1) - _special.q(precision)
        scale = (grad * precision.square() / total).unsqueeze(-1)
        through_mean = (h - q) / x - mean.log() + mean_log - 1
        # Chosen, not multiplied by zero: at the ends of the bracket the formulas may be infinite.
        moves = inside.unsqueeze(-1) & present
        grad_mean = torch.where(moves, scale * through_mean, 0.0)
        return None, None, grad_mean, torch.where(moves, scale * mean, 0.0)


def attach_gradient(precision: Tensor, inside: Tensor, mean: Tensor, mean_log: Tensor) -> Tensor:
    """Give a fitted precision its gradient with respect to the statistics that it was fitted to.

    Args:
        precision: The fitted z, ``[...]``, float64.
        inside: Where z lies inside the bracket, ``[...]``; elsewhere the gradient is zero.
        mean: Mean of the draws, ``[..., K]``, float64.
        mean_log: Mean logarithm of the draws, ``[..., K]``, float64.

    Returns:
        ``precision``, differentiable once in ``mean`` and ``mean_log``.
    """
    result: Tensor = _Precision.apply(precision, inside, mean, mean_log)  # type: ignore[no-untyped-call]
    return result
