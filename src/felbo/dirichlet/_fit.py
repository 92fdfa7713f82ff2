r"""Fit a Dirichlet to draws from the simplex, or to their sufficient statistics.

The mean of the Dirichlet is that of the draws, :math:`\bar a`; its precision z maximises the
likelihood. :math:`\alpha = z \bar a`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from felbo.dirichlet._implicit import attach_gradient
from felbo.dirichlet._precision import Solution, solve, solve_and_count
from felbo.dirichlet._statistics import spread_of_draws, spread_of_statistics
from felbo.dirichlet._validation import (
    check_bracket,
    check_draws,
    check_simplex,
    check_statistics,
)

DEFAULT_MAX_PRECISION = 1e8


class DirichletFit(NamedTuple):
    """A Dirichlet fitted to every item.

    Attributes:
        concentration: ``precision * mean``, ``[..., K]``.
        precision: Precision z, ``[...]``.
        mean: Mean of the draws, ``[..., K]``.
        iterations: Newton steps that each item took, ``[...]``, int64; zero where the first look at
            an end of the bracket shows that the maximum is there.
        converged: Whether the last step was below the tolerance, ``[...]``, bool.
    """

    concentration: Tensor
    precision: Tensor
    mean: Tensor
    iterations: Tensor
    converged: Tensor


def smooth(probs: Tensor, smoothing: float = 1e-4) -> Tensor:
    r"""Move probabilities away from the border of the simplex: :math:`(1 - \gamma) f + \gamma / K`.

    Args:
        probs: Probabilities, ``[..., K]``.
        smoothing: :math:`\gamma` in ``[0, 1]``.

    Returns:
        Smoothed probabilities, ``[..., K]``, each at least :math:`\gamma / K`.

    Example:
        >>> smooth(torch.tensor([1.0, 0.0]), smoothing=0.5)
        tensor([0.7500, 0.2500])
    """
    if not 0 <= smoothing <= 1:
        raise ValueError(f"smoothing must lie in [0, 1], got {smoothing}.")
    return probs * (1 - smoothing) + smoothing / probs.shape[-1]


def fit(
    probs: Tensor,
    *,
    min_precision: float | None = None,
    max_precision: float | None = None,
    differentiable: bool = False,
) -> DirichletFit:
    r"""Fit a Dirichlet to draws by maximum likelihood in the precision, with the mean of the draws.

    .. math::
        z = \arg\max_z \; \ln\Gamma(z) - \sum_k \ln\Gamma(z \bar a_k) + z \sum_k \bar a_k \bar l_k,
        \qquad \bar a = \tfrac1M \sum_m f_m, \quad \bar l = \tfrac1M \sum_m \log f_m

    over ``[min_precision, max_precision]``. The draws are taken as they are; see :func:`smooth`. A
    class that no draw allows drops out, and a class that only some draws rule out drives the
    precision to ``min_precision``. Draws that agree exactly have no finite maximum and get
    ``max_precision``. The result is within 1e-4 of the maximiser (relative), for float32 too:
    statistics are taken in float64, in a form in which draws that nearly agree do not cancel.

    Args:
        probs: Draws on the simplex, ``[M, ..., K]``, float32 or float64.
        min_precision: Lower end of the bracket; K unless given.
        max_precision: Upper end of the bracket; 1e8 unless given, which is the scale at which the
            draws differ by the rounding of float32. The number of training examples is a natural
            choice. A single draw needs it, and takes it as its precision.
        differentiable: Let gradients flow to ``probs``, through the mean and, by the implicit
            function theorem, through the precision (zero where an end of the bracket is the
            maximum). They can be taken once.

    Returns:
        The fit, in the dtype of ``probs``; constant for autograd unless ``differentiable``.

    Raises:
        ValueError: If ``probs`` is not a set of points on the simplex, if there is one draw and no
            ``max_precision``, or if the bracket is empty.
        TypeError: If ``probs`` is not a float32 or float64 tensor.

    Example:
        >>> probs = torch.tensor([[0.6, 0.3, 0.1], [0.4, 0.4, 0.2]])
        >>> result = fit(probs, max_precision=1000)
        >>> round(result.precision.item(), 2), result.iterations.item()
        (45.01, 1)
    """
    check_draws(probs)
    lower, upper = _bracket(probs.shape[-1], min_precision, max_precision)
    if probs.shape[0] == 1 and max_precision is None:
        raise ValueError(
            "one draw has no spread to fit a precision to: pass at least M = 2 draws, "
            "or max_precision, which is then the precision (the number of training examples, say)."
        )
    check_simplex(probs)
    with torch.no_grad():
        mean, spread = spread_of_draws(probs)
        solution = solve_and_count(mean, spread, lower, upper, tolerance_for(probs.dtype))
    precision = solution.precision
    if differentiable:
        draws = probs.double()
        mean = draws.mean(0)
        inside = (precision > lower) & (precision < upper)
        # The logarithm of a zero has no gradient. Zeros occur where the precision does not depend
        # on them: in items at the lower end, and in classes that have dropped out.
        moves = inside.unsqueeze(-1) & (mean > 0)
        mean_log = torch.where(moves, draws, 1.0).log().mean(0)
        precision = attach_gradient(precision, inside, mean, mean_log)
    return _assemble(mean, solution._replace(precision=precision), probs.dtype)


def fit_statistics(
    mean: Tensor,
    mean_log: Tensor,
    *,
    min_precision: float | None = None,
    max_precision: float | None = None,
    differentiable: bool = False,
) -> DirichletFit:
    r"""Fit a Dirichlet to the sufficient statistics of draws that are never held together.

    The same maximum as :func:`fit`, from :math:`\bar a` and :math:`\bar l`. The precision depends
    on the small difference
    :math:`D = \sum_k \bar a_k (\log \bar a_k - \bar l_k) \approx (K - 1) / 2z`: rounding the
    statistics to float32 costs a relative error of about :math:`10^{-7} z / K`. Accumulate them in
    float64 where high precisions matter. The simplex is not checked here; an item with NaN comes
    back with a precision of NaN and ``converged`` false.

    Args:
        mean: :math:`\bar a`, ``[..., K]``, float32 or float64.
        mean_log: :math:`\bar l`, ``[..., K]``, same dtype; ``-inf`` where a draw is zero.
        min_precision: Lower end of the bracket; K unless given.
        max_precision: Upper end of the bracket; 1e8 unless given.
        differentiable: Let gradients flow to both statistics, as in :func:`fit`.

    Returns:
        The fit, in the dtype of ``mean``.
    """
    check_statistics(mean, mean_log)
    lower, upper = _bracket(mean.shape[-1], min_precision, max_precision)
    if not differentiable:
        mean, mean_log = mean.detach(), mean_log.detach()
    a, l = mean.double(), mean_log.double()
    with torch.no_grad():
        spread = spread_of_statistics(a, l)
        solution = solve_and_count(a, spread, lower, upper, tolerance_for(mean.dtype))
    if differentiable:
        solution = solution._replace(
            precision=_with_gradient(solution.precision, lower, upper, a, l)
        )
    return _assemble(a, solution, mean.dtype)


def precision_of_statistics(
    points: Tensor, mean_log: Tensor, spread: Tensor, lower: float, upper: float
) -> Tensor:
    r"""Return the precision ``[S, 1]`` for statistics of S items, and nothing else.

    What is left of :func:`fit_statistics` for a caller who fits in every step of a training: no
    checks, no report, no mean that is zero, and the dtype of the statistics throughout. It has a
    gradient if they require one, in float64.

    Args:
        points: :math:`\bar a` with its sum as one more class, ``[S, K + 1]``.
        mean_log: :math:`\bar l`, ``[S, K]``.
        spread: D, ``[S, 1]``.
        lower: Lower end of the bracket.
        upper: Upper end of the bracket.
    """
    tolerance = tolerance_for(points.dtype)
    if not points.requires_grad:
        return solve(points, spread, lower, upper, tolerance)
    with torch.no_grad():
        precision = solve(points, spread, lower, upper, tolerance)
    flat = _with_gradient(precision.squeeze(-1), lower, upper, points[:, :-1], mean_log)
    return flat.unsqueeze(-1)


def _with_gradient(
    precision: Tensor, lower: float, upper: float, mean: Tensor, mean_log: Tensor
) -> Tensor:
    inside = (precision > lower) & (precision < upper)
    return attach_gradient(precision, inside, mean, mean_log)


def tolerance_for(dtype: torch.dtype) -> float:
    """Largest last step for statistics that came in ``dtype``.

    A step leaves less than a hundredth of its length: 1e-4 in float32, 1e-6 in float64.
    """
    return 1e-2 if dtype == torch.float32 else 1e-4


def _bracket(classes: int, lower: float | None, upper: float | None) -> tuple[float, float]:
    low = float(classes) if lower is None else float(lower)
    high = DEFAULT_MAX_PRECISION if upper is None else float(upper)
    check_bracket(low, high)
    return low, high


def _assemble(mean: Tensor, solution: Solution, dtype: torch.dtype) -> DirichletFit:
    precision = solution.precision
    return DirichletFit(
        concentration=(precision.unsqueeze(-1) * mean).to(dtype),
        precision=precision.to(dtype),
        mean=mean.to(dtype),
        iterations=solution.iterations,
        converged=solution.converged,
    )
