r"""Fit a Dirichlet to draws from the simplex.

The mean of the Dirichlet is that of the draws, :math:`\bar a`; its precision z maximises the
likelihood. :math:`\alpha = z \bar a`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from felbo.dirichlet.free import check_has_maximum, newton_step, solve_concentration
from felbo.dirichlet.precision import TINY, Solution, solve
from felbo.dirichlet.validation import check_bracket, check_draws, check_simplex, check_spread

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


def spread(probs: Tensor) -> Tensor:
    r"""Return how far draws lie apart, :math:`D = \sum_k \bar a_k (\log \bar a_k - \bar l_k)`.

    The likelihood of the precision depends on the draws through their mean :math:`\bar a` and D
    only. D is zero when all draws agree, and infinite when one draw rules out a class that another
    one allows. With the ratio :math:`r = f / \bar a`, of mean one, it is the mean over the draws of
    :math:`\sum_k \bar a_k (r_k - 1 - \log r_k)`. Every term is a square to first order: nothing
    cancels when the draws nearly agree, and the rounding of a mean has an effect of second order.

    Args:
        probs: Draws, ``[M, ..., K]``.

    Returns:
        D, ``[...]``, float64 whatever the dtype of the draws.
    """
    draws = probs.double()
    mean = draws.mean(0).clamp(min=TINY)
    ratio = draws / mean
    per_class = (ratio - 1.0 - ratio.log()).mean(0)
    return torch.where(mean > TINY, mean * per_class, 0.0).sum(-1)


def fit(
    probs: Tensor,
    *,
    mean: Literal["draws", "free"] = "draws",
    min_precision: float | None = None,
    max_precision: float | None = None,
    differentiable: bool = False,
    validate: bool = True,
) -> DirichletFit:
    r"""Fit a Dirichlet to draws by maximum likelihood in the precision, with the mean of the draws.

    .. math::
        z = \arg\max_z \; \ln\Gamma(z) - \sum_k \ln\Gamma(z \bar a_k) + z \sum_k \bar a_k \bar l_k,
        \qquad \bar a = \tfrac1M \sum_m f_m, \quad \bar l = \tfrac1M \sum_m \log f_m

    over ``[min_precision, max_precision]``. The draws are taken as they are; see :func:`smooth`. A
    class that no draw allows drops out, and a class that only some draws rule out drives the
    precision to ``min_precision``. Draws that agree exactly have no finite maximum and get
    ``max_precision``. The result is within 1e-4 of the maximiser (relative), for float32 too, since
    everything is computed in float64.

    Args:
        probs: Draws on the simplex, ``[M, ..., K]``, float32 or float64.
        mean: ``"draws"`` takes the mean of the draws. ``"free"`` fits the mean as well: the maximum
            over all concentrations, at ten times the cost. It has no bracket, and no maximum for
            draws that agree.
        min_precision: Lower end of the bracket; K unless given.
        max_precision: Upper end of the bracket; 1e8 unless given, which is the scale at which the
            draws differ by the rounding of float32. The number of training examples is a natural
            choice. A single draw needs it, and takes it as its precision.
        differentiable: Let gradients flow to ``probs``, through the mean and, by the implicit
            function theorem, through the precision (zero where an end of the bracket is the
            maximum). Second derivatives are right as well.
        validate: Check that the draws lie on the simplex; False for draws that come from a softmax.

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
    if mean == "free":
        if min_precision is not None or max_precision is not None:
            raise ValueError(
                "mean='free' has no bracket: leave min_precision and max_precision out."
            )
        return _fit_free(probs, differentiable, validate)
    if probs.shape[0] == 1 and max_precision is None:
        raise ValueError(
            "one draw has no spread to fit a precision to: pass at least M = 2 draws, "
            "or max_precision, which is then the precision (the number of training examples, say)."
        )
    if validate:
        check_simplex(probs)
    draws = probs.double() if differentiable else probs.detach().double()
    lower, upper = _bracket(probs.shape[-1], min_precision, max_precision)
    center = draws.mean(0)
    if probs.shape[0] == 1:
        return _assemble(center, _constant(center[..., 0], upper), probs.dtype)
    solution = solve(center.detach(), spread(draws.detach()), lower, upper, _tolerance(probs.dtype))
    if differentiable:
        z = solution.precision
        inside = (z > lower) & (z < upper)
        solution = solution._replace(precision=_with_gradient(z, inside, draws))
    return _assemble(center, solution, probs.dtype)


def fit_spread(
    mean: Tensor,
    spread: Tensor,
    *,
    min_precision: float | None = None,
    max_precision: float | None = None,
) -> DirichletFit:
    r"""Fit a Dirichlet to the mean and the spread of draws that are never held together.

    The same maximum as :func:`fit`, from :math:`\bar a` and the :func:`spread` D. Where only
    :math:`\bar a` and :math:`\bar l` are known, D is
    :math:`\sum_k \bar a_k (\log \bar a_k - \bar l_k)`, a small difference: accumulate them in
    float64. An item with NaN has a precision of NaN and ``converged`` false.

    Args:
        mean: :math:`\bar a`, ``[..., K]``, float32 or float64.
        spread: D, ``[...]``, not negative but for rounding; best in float64.
        min_precision: Lower end of the bracket; K unless given.
        max_precision: Upper end of the bracket; 1e8 unless given.

    Returns:
        The fit, in the dtype of ``mean``, constant for autograd.
    """
    check_spread(mean, spread)
    lower, upper = _bracket(mean.shape[-1], min_precision, max_precision)
    a, d = mean.detach().double(), spread.detach().double().clamp(min=0.0)
    return _assemble(a, solve(a, d, lower, upper, _tolerance(mean.dtype)), mean.dtype)


def _fit_free(probs: Tensor, differentiable: bool, validate: bool) -> DirichletFit:
    """Fit a Dirichlet with a mean of its own."""
    if validate:
        check_simplex(probs)
    draws = probs.double() if differentiable else probs.detach().double()
    mean_log = draws.log().mean(0)
    with torch.no_grad():
        check_has_maximum(mean_log)
        start = fit(draws, min_precision=1e-3, max_precision=1e12, validate=False).concentration
        alpha, solution = solve_concentration(mean_log, start)
    for _ in range(2 if differentiable else 0):
        # As in _with_gradient: Newton steps at the maximum carry its derivatives.
        alpha = alpha + newton_step(alpha, mean_log)
    precision = alpha.sum(-1)
    own_mean = alpha / precision.unsqueeze(-1)
    return _assemble(own_mean, solution._replace(precision=precision), probs.dtype)


def _with_gradient(z: Tensor, inside: Tensor, draws: Tensor) -> Tensor:
    r"""Give the maximiser z its derivatives with respect to the draws.

    A Newton step for :math:`L'(z) = 0` leaves z where it is, and its derivative with respect to the
    draws is that of the maximiser, :math:`-\partial L' / L''`. A second step makes the second
    derivatives right.

    Args:
        z: The maximiser ``[...]``.
        inside: Where it lies inside the bracket; elsewhere the derivative is zero.
        draws: ``[M, ..., K]``.
    """
    # A zero has no finite logarithm. Zeros occur only where the precision does not depend on them:
    # in items at the lower end, and in classes that no draw allows.
    present = (draws.detach() > 0).all(0) & inside.unsqueeze(-1)
    safe = torch.where(present, draws, 1.0)
    mean, mean_log = safe.mean(0), safe.log().mean(0)
    result = z
    for _ in range(2):
        alpha = result.unsqueeze(-1) * mean
        first = mean * (mean_log - torch.digamma(alpha))
        second = mean.square() * torch.polygamma(1, alpha)
        slope = torch.digamma(result) + torch.where(present, first, 0.0).sum(-1)
        curvature = torch.polygamma(1, result) - torch.where(present, second, 0.0).sum(-1)
        result = result - torch.where(inside, slope / curvature, 0.0)
    return result


def _tolerance(dtype: torch.dtype) -> float:
    """Largest last step. What it leaves is below 1e-4 for float32 draws, 1e-6 for float64."""
    return 1e-2 if dtype == torch.float32 else 1e-4


def _bracket(classes: int, lower: float | None, upper: float | None) -> tuple[float, float]:
    low = float(classes) if lower is None else float(lower)
    high = DEFAULT_MAX_PRECISION if upper is None else float(upper)
    check_bracket(low, high)
    return low, high


def _constant(like: Tensor, precision: float) -> Solution:
    """Return one precision for every item, found in no step."""
    z = torch.full_like(like.detach(), precision)
    return Solution(z, torch.zeros_like(z, dtype=torch.int64), z.isfinite())


def _assemble(mean: Tensor, solution: Solution, dtype: torch.dtype) -> DirichletFit:
    precision = solution.precision
    return DirichletFit(
        concentration=(precision.unsqueeze(-1) * mean).to(dtype),
        precision=precision.to(dtype),
        mean=mean.to(dtype),
        iterations=solution.iterations,
        converged=solution.converged,
    )
