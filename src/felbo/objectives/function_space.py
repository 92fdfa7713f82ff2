"""The function-space evidence lower bound."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from felbo.measurement import MeasurementSet
from felbo.models import StochasticClassifier
from felbo.objectives._bound import Divergence, bound
from felbo.objectives._checks import check_label_kind, check_prior
from felbo.objectives._kl import KL, KLOfDraws, KLOfOneDraw, dtype_for_kl
from felbo.objectives.loss import Loss
from felbo.priors import Prior

Gradient = Literal["partial", "total"]


class FunctionSpaceELBO:
    """Expected negative log-likelihood plus the KL divergence to a prior over functions.

    ``loss = mean −log f_y + weight · mean [log Dir(f | α) − log Dir(f | β)]``

    where the second mean runs over draws f and measurement points, α is fitted to the draws at each
    point and β is the prior's concentration there. The KL term is a Monte-Carlo estimate with the
    M draws at hand: unbiased for the divergence between the law of the draws and the prior only as
    far as the draws are Dirichlet; it can be negative for single steps.

    Args:
        prior: maps inputs to a Dirichlet over class probabilities.
        num_data: N, the number of training examples; the fitted precision lies in [K, N].
        measurement: where posterior and prior are compared; ``None`` is the training batch, whose
            forward pass is shared.
        kl_weight: weight of the KL term; ``"batch"`` is 1 / B as in the paper.
        gradient: ``"partial"`` holds α constant; ``"total"`` differentiates through the fit.
        num_samples: M; ``None`` takes the model's training default.
        smoothing: γ of ``f ← (1 − γ) f + γ / K``, applied to the draws in the KL term only.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MAP(felbo.networks.mlp(2, (25,), 3))
        >>> objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(3), num_data=100)
        >>> loss = objective(model, torch.zeros(8, 2), torch.zeros(8, dtype=torch.int64))
        >>> loss.total.backward()
    """

    def __init__(
        self,
        prior: Prior,
        num_data: int,
        measurement: MeasurementSet | None = None,
        kl_weight: float | Literal["batch"] = "batch",
        gradient: Gradient = "partial",
        num_samples: int | None = None,
        smoothing: float = 1e-4,
    ) -> None:
        if num_data < 1:
            raise ValueError(f"num_data is the number of training examples, got {num_data}.")
        if kl_weight != "batch" and not (isinstance(kl_weight, int | float) and kl_weight >= 0):
            raise ValueError(f"kl_weight must be 'batch' or a number ≥ 0, got {kl_weight!r}.")
        if gradient not in ("partial", "total"):
            raise ValueError(f"gradient must be 'partial' or 'total', got {gradient!r}.")
        if not 0.0 <= smoothing < 1.0:
            raise ValueError(f"smoothing must lie in [0, 1), got {smoothing}.")
        self.prior = prior
        self.num_data = num_data
        self.measurement = measurement
        self.kl_weight = kl_weight
        self.gradient = gradient
        self.num_samples = num_samples
        self.smoothing = smoothing
        self._kept: tuple[Tensor, tuple[Any, ...], KL] | None = None

    def __call__(self, model: StochasticClassifier, x: Tensor, y: Tensor) -> Loss:
        """Return the loss of ``model`` on inputs ``x [B, ...]`` and labels ``y [B]``."""
        inputs, points = self._inputs(x)
        # One forward pass for both terms: a draw is the same function in the NLL and in the KL.
        logits = model(inputs, self.num_samples)
        batch = x.shape[0]
        check_label_kind(y, batch)
        weight = 1.0 / batch if self.kl_weight == "batch" else self.kl_weight
        return self._bound(logits, y, points, weight)

    def _inputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """All inputs of a step, the batch first, and the measurement points, which come last."""
        points = None if self.measurement is None else self.measurement(x)
        if points is None:
            return x, x
        inputs = torch.cat([x, points])
        return inputs, inputs if getattr(self.measurement, "includes_batch", False) else points

    def kl(self, logits: Tensor, points: Tensor) -> Tensor:
        """Estimate the function-space KL from draws at the measurement points.

        Args:
            logits: of the draws ``[M, S, K]``.
            points: the measurement points ``[S, ...]``.
        """
        unlabelled = torch.empty(0, dtype=torch.int64, device=logits.device)
        return self._bound(logits, unlabelled, points, weight=1.0).total

    def _bound(self, logits: Tensor, labels: Tensor, points: Tensor, weight: float) -> Loss:
        total, number = self.gradient == "total", points.shape[0]
        with torch.no_grad():
            kl = self._kl_at(points, number, logits)
        divergence = partial(_total if total else _partial, kl)
        return bound(logits, labels, number, self.smoothing, weight, divergence, by_autograd=total)

    def _kl_at(self, points: Tensor, number: int, logits: Tensor) -> KL:
        """Return the KL to the prior at S points; kept, as many give the same in every step."""
        given = self.prior(points).concentration
        dtype = dtype_for_kl(logits, self.smoothing, total=self.gradient == "total")
        settings = (self.num_data, self.smoothing)
        key = (given._version, number, logits.shape, dtype, logits.device, settings)
        kept = self._kept
        if kept is None or kept[0] is not given or kept[1] != key:
            classes = logits.shape[-1]
            check_prior(given, number, classes)
            beta, cap = given.to(logits.device), float(max(self.num_data, classes))
            kl: KL = (
                KLOfDraws(beta, cap, dtype)
                if logits.shape[0] > 1
                else KLOfOneDraw(beta, cap, dtype, self.smoothing / classes)
            )
            kept = self._kept = (given, key, kl)
        return kept[2]


def _partial(kl: KL, draws: Tensor) -> Divergence:
    """Divergence of smoothed draws ``[M, S, K]`` with α held constant."""
    if kl.dtype == draws.dtype:
        return Divergence(*kl(draws))
    value, slope = kl(draws.to(kl.dtype))
    return Divergence(value.to(draws), torch.as_tensor(slope).to(draws))


def _total(kl: KL, draws: Tensor) -> Divergence:
    """Divergence of smoothed draws ``[M, S, K]`` with its derivative through the fit."""
    with torch.enable_grad():
        wide = draws.to(kl.dtype).detach().requires_grad_()
        value, _ = kl(wide)
        (by_draws,) = torch.autograd.grad(value * draws.shape[1], wide)
    return Divergence(value.detach().to(draws), None, by_draws.to(draws))
