"""Outlier exposure: cross-entropy to uniform labels at points elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from felbo.errors import SettingError
from felbo.inputs import Inputs
from felbo.measurement import Comparison, MeasurementLike, as_measurement_set, points_of
from felbo.models import StochasticClassifier
from felbo.objectives.base import Loss, Objective
from felbo.objectives.checks import check_model, check_weight
from felbo.objectives.forward import forward_once, forward_points
from felbo.objectives.likelihood import expected_nll


class OutlierExposure(Objective):
    """Expected negative log-likelihood plus the cross-entropy to uniform labels elsewhere.

    ``loss = mean −log f_y + weight · mean_s −1/K Σ_k log f_k(s)``

    (Hendrycks, Mazeika and Dietterich, 2019, "Deep Anomaly Detection with Outlier Exposure"). For
    one draw and a uniform prior the function-space KL has K times the gradient of the second term;
    with several draws, the KL also favours draws that differ as those of the prior do.

    In the :class:`Loss`, ``kl`` is the second term without its weight.

    Args:
        points: maps the batch to inputs elsewhere ``[S, ...]``.
        weight: of the second term; 0.5 is that of the paper for images.
        num_samples: M; ``None`` takes the model's training default.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MAP(felbo.networks.mlp(2, (25,), 3))
        >>> objective = felbo.OutlierExposure(felbo.measurement.Elsewhere())
        >>> loss = objective(model, torch.randn(8, 2), torch.zeros(8, dtype=torch.int64))
        >>> loss.total.backward()
    """

    def __init__(
        self,
        points: MeasurementLike,
        weight: float = 0.5,
        num_samples: int | None = None,
    ) -> None:
        check_weight("weight", weight)
        self.points = as_measurement_set(points)
        if self.points.includes_batch:
            raise SettingError(
                f"Points elsewhere must not include the batch, got {type(self.points).__name__}. "
                "Use for instance felbo.measurement.Elsewhere()."
            )
        self.weight = weight
        self.num_samples = num_samples

    def __call__(self, model: StochasticClassifier, x: Inputs, y: Tensor) -> Loss:
        """Return the loss of ``model`` on inputs ``x [B, ...]`` and labels ``y [B]``."""
        check_model(model)

        def doubt(points: Tensor) -> Tensor:
            return cross_entropy_to_uniform(forward_points(model, points, self.num_samples))

        points = points_of(self.points, x, Comparison(model, doubt))
        batch, [(logits, _)] = forward_once(model, x, [points], [False], self.num_samples)
        nll, away = expected_nll(batch, y), cross_entropy_to_uniform(logits).mean()
        return Loss(nll + self.weight * away, nll, away)


def cross_entropy_to_uniform(logits: Tensor) -> Tensor:
    """Return ``mean over draws and classes of −log f`` at each point, ``[S]``.

    It is in the precision of the logits (float32 for lower).
    """
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return -precise.log_softmax(-1).mean((0, 2))
