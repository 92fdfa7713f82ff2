"""Fit a Dirichlet to draws from the simplex, or to their sufficient statistics."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from felbo.dirichlet._precision import solve
from felbo.dirichlet._validation import (
    check_bracket,
    check_draws_shape,
    check_float,
    check_simplex,
)

DEFAULT_MAX_PRECISION = 1e8


class DirichletFit(NamedTuple):
    """A Dirichlet fitted to every item.

    Attributes:
        concentration: ``precision * mean``, ``[..., K]``.
        precision: Sum of the concentration, ``[...]``.
        mean: Mean of the draws, ``[..., K]``.
        iterations: Newton steps that the item took, ``[...]``; zero where an end of the bracket is the maximum.
        converged: Whether the last step was below the tolerance, ``[...]``.
    """

    concentration: Tensor
    precision: Tensor
    mean: Tensor
    iterations: Tensor
    converged: Tensor


def smooth(probs: Tensor, smoothing: float = 1e-4) -> Tensor:
    r"""Move probabilities away from the border: :math:`(1 - \gamma) f + \gamma / K`.

    Args:
        probs: Probabilities, ``[..., K]``.
        smoothing: :math:`\gamma` in ``[0, 1]``.

    Returns:
        Smoothed probabilities, ``[..., K]``, each at least :math:`\gamma / K`.
    """
    if not 0 <= smoothing <= 1:
        raise ValueError(f"smoothing must lie in [0, 1], got {smoothing}.")
    return probs * (1 - smoothing) + smoothing / probs.shape[-1]


def fit(
    probs: Tensor,
    *,
    min_precision: float | None = None,
    max_precision: float | None = None,
) -> DirichletFit:
    """Fit a Dirichlet to draws by maximum likelihood in the precision, the mean fixed to that of the draws.

    Args:
        probs: Draws on the simplex, ``[M, ..., K]``, float32 or float64.
        min_precision: Lower end of the bracket; K unless given.
        max_precision: Upper end of the bracket; 1e8 unless given. Needed for a single draw.

    Returns:
        The fit, in the dtype of ``probs``.
    """
    check_float("probs", probs)
    check_draws_shape(probs)
    lower, upper = _bracket(probs.shape[-1], min_precision, max_precision)
    check_simplex(probs)
    if probs.shape[0] == 1 and max_precision is None:
        raise ValueError(
            "one draw has no spread to fit a precision to: pass at least M = 2 draws, "
            "or max_precision, which is then the precision (the number of training examples, say)."
        )
    with torch.no_grad():
        draws = probs.double()
        mean = draws.mean(0)
        # d has mean zero over the draws, so D = sum a mean(d - log(1 + d)): no cancellation for draws
        # that agree closely.
        d = torch.where(mean > 0, draws / mean - 1, 0.0)
        spread = mean * (d - torch.log1p(d)).mean(0)
        return _finish(mean, spread.sum(-1), lower, upper, probs.dtype)


def fit_statistics(
    mean: Tensor,
    mean_log: Tensor,
    *,
    min_precision: float | None = None,
    max_precision: float | None = None,
) -> DirichletFit:
    """Fit a Dirichlet to the sufficient statistics of draws.

    Args:
        mean: Mean of the draws, ``[..., K]``, float32 or float64.
        mean_log: Mean of the logarithm of the draws, ``[..., K]``.
        min_precision: Lower end of the bracket; K unless given.
        max_precision: Upper end of the bracket; 1e8 unless given.

    Returns:
        The fit, in the dtype of ``mean``.
    """
    check_float("mean", mean)
    check_float("mean_log", mean_log)
    if mean.shape != mean_log.shape or mean.ndim < 1 or mean.shape[-1] < 2:
        raise ValueError(
            "mean and mean_log must both have shape [..., K] with K >= 2, "
            f"got {list(mean.shape)} and {list(mean_log.shape)}."
        )
    lower, upper = _bracket(mean.shape[-1], min_precision, max_precision)
    with torch.no_grad():
        a = mean.double()
        spread = torch.where(a > 0, a * (a.log() - mean_log), 0.0).sum(-1)
        return _finish(a, spread, lower, upper, mean.dtype)


def _bracket(classes: int, lower: float | None, upper: float | None) -> tuple[float, float]:
    low = float(classes) if lower is None else float(lower)
    high = DEFAULT_MAX_PRECISION if upper is None else float(upper)
    check_bracket(low, high)
    return low, high


def _finish(
    mean: Tensor, spread: Tensor, lower: float, upper: float, dtype: torch.dtype
) -> DirichletFit:
    solution = solve(mean, spread, lower, upper)
    z = solution.precision
    return DirichletFit(
        concentration=(z.unsqueeze(-1) * mean).to(dtype),
        precision=z.to(dtype),
        mean=mean.to(dtype),
        iterations=solution.iterations,
        converged=solution.converged,
    )
