r"""The function-space KL of draws f ``[M, S, K]``, with their means ā of f and l̄ of ``log f``.

Since α and β are the same for all draws at a point, only the mean of ``log f`` enters:

``mean_s [log B(β) − log B(α) + Σ_k (α_k − β_k) l̄_k],  log B(α) = Σ_k lnΓ(α_k) − lnΓ(Σ_k α_k)``

Terms of size N log N cancel here: summed in float32 as they stand, they would leave errors of
0.1 nats.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from felbo import dirichlet
from felbo._constants import filled
from felbo._matmul import sums_in_full
from felbo.dirichlet._fit import precision_of_statistics
from felbo.dirichlet._precision import signs, with_total
from felbo.dirichlet._special import (
    STIRLING_QUOTIENT_FROM,
    stirling_part,
    stirling_quotient,
)


class KLOfOneDraw:
    """The KL for ``α = N f``, N being the largest precision.

    With Stirling's formula ``lnΓ(x) = (x − ½) log x − x + ½ log 2π + μ(x)``, and since f sums to
    one, all that is large cancels. With b, the mean of the prior,

    ``log B(β) + ½ (K − 1) log(N / 2π) + μ(N) − Σ_k (β_k − ½) log b_k``
    ``− Σ_k [(β_k − ½) log(f_k / b_k) + μ(N f_k)]``

    remains, where the first line does not depend on f. For one draw of a small network operations
    take longer to call than to run, so there are as few as possible.

    Args:
        concentration: β of the prior at the points, ``[S, K]`` or ``[K]``.
        cap: N.
        dtype: of the draws.
        smallest: what no f_k lies below.
    """

    def __init__(
        self, concentration: Tensor, cap: float, dtype: torch.dtype, smallest: float = 0.0
    ) -> None:
        self.dtype, self.cap = dtype, cap
        self.short = dtype == torch.float32 and cap * smallest >= STIRLING_QUOTIENT_FROM
        beta = concentration.double()
        classes = beta.shape[-1]
        one = beta.new_ones(())
        constant = dirichlet.log_normalizer(beta).mean() + stirling_part(cap * one) - 1.0
        constant = constant + 0.5 * (classes - 1) * math.log(cap / (2.0 * math.pi))
        shared = _number_if_shared(beta)
        self.slope = -_in(shared, dtype)
        # A number β − ½ is left out of the sum, and μ divided by it; the sum is multiplied by it.
        # Otherwise there are rows of β − ½ and log b.
        self.factor = 1.0
        self.rows: tuple[Tensor, Tensor] | None = None
        if isinstance(shared, float) and shared != 0.5:
            self.factor = shared - 0.5
        else:
            factor, log_mean = beta - 0.5, (beta / beta.sum(-1, keepdim=True)).log()
            constant = constant - (factor * log_mean).sum(-1).mean()
            self.rows = factor.to(dtype), log_mean.to(dtype)
        if not self.short:
            # The long form is μ + 1.
            constant = constant + classes
        self.constant = constant.to(dtype)

    def __call__(self, draws: Tensor) -> tuple[Tensor, Tensor | float]:
        """Return the KL, a scalar, and the derivative of S times it by ``log f``, α constant.

        The derivative is −β in place of α − β: the missing ``N Σ_k ∂f_k`` is zero since f sums to
        one.

        Args:
            draws: f ``[1, S, K]``.
        """
        logs = draws.log()
        if self.rows is not None:
            factor, log_mean = self.rows
            logs = (logs - log_mean) * factor
        if self.short:
            terms = logs.addcdiv_(*stirling_quotient(draws, self.cap, self.factor))
        else:
            terms = torch.add(logs, stirling_part(draws * self.cap), alpha=1.0 / self.factor)
        value = torch.add(self.constant, terms.sum(), alpha=-self.factor / draws.shape[1])
        return value, self.slope


class KLOfDraws:
    """The KL for α fitted to several draws, with a precision between K and N.

    With Stirling's formula ``lnΓ(x) = (x − ½) log x − x + ½ log 2π + μ(x)`` all that cancels can be
    left out. For α = z ā and β = y b, where ā and b sum to one,

    ``½ (K − 1) log(z / y) + ρ(α) − ρ(β)``
    ``+ Σ_k [β_k (log b_k − l̄_k) − α_k (log ā_k − l̄_k) + ½ log(ā_k / b_k)]``

    remains, with ``ρ(α) = μ(z) − Σ_k μ(α_k)``; it needs no float64, and no lnΓ.

    Args:
        concentration: β of the prior at the points, ``[S, K]`` or ``[K]``.
        cap: N.
        dtype: of the draws.
    """

    def __init__(self, concentration: Tensor, cap: float, dtype: torch.dtype) -> None:
        self.dtype, self.cap = dtype, cap
        beta = concentration.double()
        total = beta.sum(-1, keepdim=True)
        log_mean = (beta / total).log()
        # ρ(β) less K − 1, like that of α below.
        rho = stirling_part(total) - stirling_part(beta).sum(-1, keepdim=True)
        logs = (beta.shape[-1] - 1) * total.log() + log_mean.sum(-1, keepdim=True)
        constant = -(rho + 0.5 * logs).mean()
        self.beta, self.log_mean = _in(_number_if_shared(beta), dtype), log_mean.to(dtype)
        if isinstance(self.beta, float):
            constant = constant + self.beta * log_mean.sum()
        self.constant = constant.to(dtype)
        self.less_beta = torch.as_tensor(-self.beta, dtype=dtype, device=beta.device)

    def __call__(self, draws: Tensor) -> tuple[Tensor, Tensor]:
        """Return the KL, a scalar, and the derivative of S times it by l̄, α constant, ``[S, K]``.

        Args:
            draws: f ``[M, S, K]``; if they require a gradient, the KL has one through the fit.
        """
        mean, mean_log = draws.mean(0), draws.log().mean(0)
        classes, logs = mean.shape[-1], mean.log()
        spread = ((logs - mean_log) * mean).sum(-1, keepdim=True)
        points = with_total(mean)
        z = precision_of_statistics(points, mean_log, spread, float(classes), self.cap)
        # Of every item, [S, 1]: first 1/2 (K - 1) log z + ρ(α), less K - 1.
        values = torch.addmm(
            z.log(),
            stirling_part(z * points),
            signs(classes, mean),
            beta=0.5 * (classes - 1),
            alpha=-1.0,
        )
        halves = filled(0.5, (classes, 1), mean)
        values = torch.addmm(values, self._twice_logs(logs, mean_log), halves)
        values = torch.addcmul(values, z, spread, value=-1.0).sum()
        value = torch.add(self.constant, values, alpha=1.0 / mean.shape[0])
        return value, torch.addcmul(self.less_beta, z, mean)

    def _twice_logs(self, logs: Tensor, mean_log: Tensor) -> Tensor:
        """Return ``log ā − 2 β (l̄ − log b)``, ``[S, K]``; a shared b is in the constant."""
        if isinstance(self.beta, float):
            return torch.add(logs, mean_log, alpha=-2.0 * self.beta)
        return torch.addcmul(logs, mean_log - self.log_mean, self.beta, value=-2.0)


KL = KLOfOneDraw | KLOfDraws


def dtype_for_kl(logits: Tensor, smoothing: float, *, total: bool) -> torch.dtype:
    """Return the dtype in which draws ``[M, S, K]``, smoothed by γ, should come to their KL.

    Float32 is not enough if a draw can be zero, nor, for several draws, if matrix products round to
    less than that. Differentiation through the fit (``total``) is in float64 always.
    """
    if total or logits.dtype == torch.float64 or smoothing <= 1e-30:
        return torch.float64
    in_full = logits.shape[0] == 1 or sums_in_full(logits.device.type)
    return torch.float32 if in_full else torch.float64


def _number_if_shared(beta: Tensor) -> Tensor | float:
    """Return a concentration that all points and classes share as a number, if it is not large.

    A processor combines short rows with a number more quickly than with a row. An accelerator would
    have to be waited for. With the number, Σ β log f and Σ β log b are summed by themselves, and
    float32 leaves errors of 1e-7 of their size.
    """
    shared = beta.dim() == 1 and beta.device.type == "cpu" and bool((beta == beta[0]).all())
    return float(beta[0]) if shared and float(beta.sum()) <= 1000.0 else beta


def _in(beta: Tensor | float, dtype: torch.dtype) -> Tensor | float:
    return beta if isinstance(beta, float) else beta.to(dtype)
