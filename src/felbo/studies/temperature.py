"""Temperature scaling, the usual remedy for a network that is too sure of itself."""

from __future__ import annotations

import math

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn

import felbo
from felbo.inputs import Inputs
from felbo.models.modes import evaluation_mode


class Tempered(felbo.StochasticClassifier):
    """Another model with its logits divided by a temperature.

    Args:
        model: the model.
        temperature: T; above 1 predictions become less sure.
    """

    def __init__(self, model: felbo.StochasticClassifier, temperature: float) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature
        self.evaluation_samples = model.evaluation_samples

    @property
    def is_random(self) -> bool:
        """Whether draws of the model can differ."""
        return self.model.is_random

    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return the model's logits ``[M, B, K]`` divided by the temperature."""
        logits: Tensor = self.model(x, num_samples) / self.temperature
        return logits


def tempered(model: felbo.StochasticClassifier, temperature: float) -> Tempered:
    """Return the model at a temperature, in evaluation mode."""
    return Tempered(model, temperature).eval()


def fitted_temperature(
    model: felbo.StochasticClassifier, x: Tensor, y: Tensor, batch_size: int = 500
) -> float:
    """Return the T in [0.1, 10] with the best log-likelihood of labels that were held out.

    ``argmax_T Σ_i log mean_m softmax(logits_mi / T)_{y_i}``
    """
    with evaluation_mode([model]), torch.no_grad():
        logits = torch.cat([model(part) for part in torch.split(x, batch_size)], dim=1).double()

    def nll(log_temperature: float) -> float:
        probs = (logits / math.exp(log_temperature)).softmax(-1).mean(0)
        return float(nn.functional.nll_loss(probs.clamp_min(1e-12).log(), y))

    bound = math.log(10.0)
    found = minimize_scalar(nll, bounds=(-bound, bound), method="bounded")
    return math.exp(float(found.x))
