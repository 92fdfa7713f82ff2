"""The weight-space evidence lower bound."""

from __future__ import annotations

import math

from torch import Tensor

from felbo.models import StochasticClassifier
from felbo.objectives.likelihood import expected_nll
from felbo.objectives.loss import Loss


class WeightSpaceELBO:
    """Expected negative log-likelihood plus the KL divergence to a prior over weights.

    ``loss = mean −log f_y + temperature · KL[q(w) || p(w)] / N``

    The KL is the model's own, exact and summed over all weights; the division by N puts it on the
    scale of one training example, as the mean is. With temperature 1 this is the negative ELBO
    divided by N. The conventional counterpart of :class:`FunctionSpaceELBO` for MeanField, Radial
    and Rank1; for MAP, MCDropout and Ensemble the KL is 0, and weight decay in the optimiser is
    the prior.

    Args:
        num_data: N, the number of training examples.
        temperature: weight of the KL term; below 1 a cold posterior.
        num_samples: M; ``None`` takes the model's training default.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MeanField(felbo.networks.mlp(2, (25,), 3))
        >>> objective = felbo.WeightSpaceELBO(num_data=100)
        >>> loss = objective(model, torch.zeros(8, 2), torch.zeros(8, dtype=torch.int64))
        >>> loss.total.backward()
    """

    def __init__(
        self, num_data: int, *, temperature: float = 1.0, num_samples: int | None = None
    ) -> None:
        if num_data < 1:
            raise ValueError(f"num_data is the number of training examples, got {num_data}.")
        if not (math.isfinite(temperature) and temperature >= 0):
            raise ValueError(f"temperature must be finite and ≥ 0, got {temperature}.")
        self.num_data = num_data
        self.temperature = temperature
        self.num_samples = num_samples

    def __call__(self, model: StochasticClassifier, x: Tensor, y: Tensor) -> Loss:
        """Return the loss on inputs ``x [B, ...]`` and labels ``y [B]``; its ``kl`` is KL / N."""
        nll = expected_nll(model(x, self.num_samples), y)
        kl = model.weight_kl() / self.num_data
        return Loss(total=nll + self.temperature * kl, nll=nll.detach(), kl=kl.detach())
