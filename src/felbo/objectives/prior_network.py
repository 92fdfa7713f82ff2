"""Prior Networks: a sharp Dirichlet on training data, a flat one out of distribution."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from felbo import dirichlet
from felbo.errors import SettingError
from felbo.inputs import Inputs, batch_size, concatenate
from felbo.measurement import MeasurementLike, as_measurement_set, points_of
from felbo.models import StochasticClassifier
from felbo.models.concentration import concentration_of
from felbo.objectives.base import Loss, Objective
from felbo.objectives.checks import check_choice, check_labels, check_smoothing, check_weight

Direction = Literal["reverse", "forward"]


class PriorNetwork(Objective):
    """KL from target Dirichlets, on training data and on out-of-distribution data.

    ``loss = mean_B D(α, t(y)) + w · mean_S D(α, 1)``,  ``t(y) = precision · ((1 − γ) e_y + γ / K)``

    with D(α, t) = KL(Dir(α) ‖ Dir(t)) in the reverse and KL(Dir(t) ‖ Dir(α)) in the forward
    direction. If one input has several labels, the optimum of the forward KL covers all their
    targets, with most of its mass in the corners; that of the reverse KL is the mean of the
    targets' concentrations, with a single mode between them (Malinin and Gales, 2018, "Predictive
    Uncertainty Estimation via Prior Networks"; 2019, "Reverse KL-Divergence Training of Prior
    Networks").

    In the :class:`Loss`, ``nll`` is the first divergence and ``kl`` the second.

    Args:
        ood: maps the batch to out-of-distribution inputs ``[S, ...]``, for instance
            :class:`felbo.measurement.Pool` or :class:`felbo.measurement.Augmented`.
        direction: ``"reverse"`` or ``"forward"``.
        precision: Σ t, of the target at labelled inputs.
        smoothing: γ, which keeps the target's mean inside the simplex. With γ = K / precision every
            wrong class has t = 1.
        ood_weight: w.

    Example:
        >>> import torch, felbo
        >>> model = felbo.ConcentrationNetwork(felbo.networks.mlp(2, (25,), 3))
        >>> objective = felbo.PriorNetwork(ood=felbo.measurement.Augmented(lambda x: x + 10.0))
        >>> loss = objective(model, torch.zeros(8, 2), torch.zeros(8, dtype=torch.int64))
        >>> loss.total.backward()
    """

    def __init__(
        self,
        ood: MeasurementLike,
        direction: Direction = "reverse",
        precision: float = 100.0,
        smoothing: float = 0.1,
        ood_weight: float = 1.0,
    ) -> None:
        check_choice("direction", direction, ("reverse", "forward"))
        check_weight("precision", precision)
        check_smoothing(smoothing)
        if not (precision and smoothing):
            raise SettingError(
                f"precision and smoothing must be positive, got {precision} and {smoothing}: the "
                "target at labelled inputs would not be a Dirichlet."
            )
        check_weight("ood_weight", ood_weight)
        self.ood = as_measurement_set(ood)
        if self.ood.includes_batch:
            raise SettingError(
                "ood includes the training batch, which cannot be out of distribution at the same "
                "time; remove Batch() from it."
            )
        self.direction: Direction = direction
        self.precision = precision
        self.smoothing = smoothing
        self.ood_weight = ood_weight

    def __call__(self, model: StochasticClassifier, x: Inputs, y: Tensor) -> Loss:
        """Return the loss of ``model`` on inputs ``x [B, ...]`` and labels ``y [B]``."""
        items, points = batch_size(x), points_of(self.ood, x)
        alpha = concentration_of(model, concatenate([x, points]))
        check_labels(y, items, alpha.shape[-1])
        inside, outside = alpha[:items], alpha[items:]
        nll = self.divergence(inside, self.target(y, inside)).mean()
        kl = self.divergence(outside, torch.ones_like(outside)).mean()
        return Loss(total=nll + self.ood_weight * kl, nll=nll, kl=kl)

    def target(self, labels: Tensor, like: Tensor) -> Tensor:
        """Concentration around the smoothed labels ``[B]``, with the shape of ``like [B, K]``."""
        one_hot = torch.zeros_like(like).scatter_(-1, labels.long()[:, None], 1.0)
        return self.precision * dirichlet.smooth(one_hot, self.smoothing)

    def divergence(self, concentration: Tensor, target: Tensor) -> Tensor:
        """D(α, t) in the chosen direction, ``[...]`` for two concentrations ``[..., K]``."""
        if self.direction == "reverse":
            return dirichlet.kl_divergence(concentration, target)
        return dirichlet.kl_divergence(target, concentration)
