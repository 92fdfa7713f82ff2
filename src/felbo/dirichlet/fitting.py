"""Maximum-likelihood fit of a Dirichlet to draws on the simplex.

The mean of the Dirichlet is that of the draws, ā; its precision z maximises the likelihood.
The concentration is α = z ā.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from felbo.dirichlet.free import check_has_maximum, newton_step, solve_concentration
from felbo.dirichlet.precision import TINY, Solution, solve
from felbo.dirichlet.validation import check_bracket, check_draws, check_simplex, check_spread
from felbo.errors import SettingError

DEFAULT_MAX_PRECISION = 1e8


class DirichletFit(NamedTuple):
    """A Dirichlet fitted to every item.

    Attributes:
        concentration: ``precision * mean``, ``[..., K]``.
        precision: Precision z, ``[...]``.
        mean: Mean of the draws, ``[..., K]``.
        iterations: Number of Newton steps per item, ``[...]``, int64; zero where the maximum is at
            an end of the bracket.
        converged: True where the last step was below the tolerance, ``[...]``, bool.
    """

    concentration: Tensor
    precision: Tensor
    mean: Tensor
    iterations: Tensor
    converged: Tensor


def smooth(probs: Tensor, smoothing: float = 1e-4) -> Tensor:
    """Smooth probabilities away from 0: ``(1 − γ) f + γ / K``.

    Args:
        probs: Probabilities, ``[..., K]``.
        smoothing: γ in ``[0, 1]``.

    Returns:
        Smoothed probabilities, ``[..., K]``, each at least ``γ / K``.

    Example:
        >>> smooth(torch.tensor([1.0, 0.0]), smoothing=0.5)
        tensor([0.7500, 0.2500])
    """
    if not 0 <= smoothing <= 1:
        raise SettingError(f"smoothing must lie in [0, 1], got {smoothing}.")
    return probs * (1 - smoothing) + smoothing / probs.shape[-1]


def spread(probs: Tensor) -> Tensor:
    """Return the spread of draws, ``D = Σ_k ā_k (log ā_k − l̄_k)``.

    The likelihood of the precision depends on the draws only through their mean ā and D. D is zero
    when all draws are equal, and infinite when a class has probability 0 in some draws but not in
    all. With the ratio ``r = f / ā``, whose mean is one, it is the mean over the draws of
    ``Σ_k ā_k (r_k − 1 − log r_k)``. Every term is quadratic in r − 1: there is no cancellation when
    the draws are nearly equal, and rounding of the mean has a second-order effect.

    Args:
        probs: Draws, ``[M, ..., K]``.

    Returns:
        D, ``[...]``, float64 for every dtype of the draws.
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
    """Fit a Dirichlet to draws by maximum likelihood in the precision, with the mean of the draws.

    ``z = argmax_z  lnΓ(z) − Σ_k lnΓ(z ā_k) + z Σ_k ā_k l̄_k``,
    ``ā = mean_m f_m``,  ``l̄ = mean_m log f_m``

    over ``[min_precision, max_precision]``. The draws are not smoothed; see :func:`smooth`. A class
    with probability 0 in all draws is ignored; one with probability 0 in some draws gives
    ``min_precision``. Equal draws have no finite maximum and get ``max_precision``. The result is
    within 1e-4 of the maximiser (relative), for float32 too, since everything is computed in
    float64. Rounding the draws themselves to float32 changes the answer, though: draws of precision
    z differ by ``1 / √z``, so rounding alone moves z by up to ``1e-7 √z`` (relative), 0.3 % at
    z = 1e9. This affects :func:`felbo.predict`; objectives compute the softmax in float64.

    Args:
        probs: Draws on the simplex, ``[M, ..., K]``, float32 or float64.
        mean: ``"draws"`` uses the mean of the draws. ``"free"`` fits the mean as well: the maximum
            over all concentrations, at ten times the cost. It has no bracket, and no maximum for
            equal draws.
        min_precision: Lower end of the bracket; K unless given.
        max_precision: Upper end of the bracket; 1e8 unless given, the scale at which draws differ
            by float32 rounding. The number of training examples is a natural choice. Required for a
            single draw, whose precision it is.
        differentiable: Let gradients flow to ``probs``, through the mean and, by the implicit
            function theorem, through the precision (zero where an end of the bracket is the
            maximum). Second derivatives are supported.
        validate: Check that the draws lie on the simplex; False for outputs of a softmax.

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
    if mean not in ("draws", "free"):
        raise SettingError(f"mean must be 'draws' or 'free', got {mean!r}.")
    if mean == "free":
        if min_precision is not None or max_precision is not None:
            raise SettingError("mean='free' has no bracket: omit min_precision and max_precision.")
        return _fit_free(probs, differentiable, validate)
    if probs.shape[0] == 1 and max_precision is None:
        raise SettingError(
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
    """Fit a Dirichlet from the mean and the spread of draws, without the draws themselves.

    The same maximum as :func:`fit`, from ā and the :func:`spread` D. Where only ā and l̄ are known,
    D is ``Σ_k ā_k (log ā_k − l̄_k)``, a small difference of large terms: accumulate both in float64.
    An item with NaN has a precision of NaN and ``converged`` false.

    Args:
        mean: ā, ``[..., K]``, float32 or float64.
        spread: D, ``[...]``, non-negative up to rounding; preferably float64.
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
    """Fit mean and precision of a Dirichlet."""
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
    """Attach to the maximiser z its gradient with respect to the draws.

    A Newton step for ``L'(z) = 0`` does not change z, and its derivative with respect to the
    draws is that of the maximiser, ``−∂L' / L''``. A second step gives correct second
    derivatives.

    Args:
        z: The maximiser ``[...]``.
        inside: True where z lies inside the bracket; elsewhere the gradient is zero.
        draws: ``[M, ..., K]``.
    """
    # log 0 is not finite. Zeros occur only where the precision does not depend on them: in items at
    # the lower end, and in classes with probability 0 in all draws.
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
    """Largest last step, relative; it leaves an error < 1e-4 for float32, < 1e-6 for float64."""
    return 1e-2 if dtype == torch.float32 else 1e-4


def _bracket(classes: int, lower: float | None, upper: float | None) -> tuple[float, float]:
    low = float(classes) if lower is None else float(lower)
    high = DEFAULT_MAX_PRECISION if upper is None else float(upper)
    check_bracket(low, high)
    return low, high


def _constant(like: Tensor, precision: float) -> Solution:
    """Return the same precision for every item, with zero iterations."""
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
