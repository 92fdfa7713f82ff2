"""From a model and inputs to class probabilities and their Dirichlet."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import torch
from torch import Tensor

from felbo import dirichlet
from felbo.models import StochasticClassifier
from felbo.random import torch_seed


@dataclass(frozen=True)
class Prediction:
    """Class probabilities and the Dirichlet behind them, for B inputs.

    Attributes:
        probs: mean of the draws' class probabilities ``[B, K]``.
        concentration: α of the Dirichlet fitted to the draws ``[B, K]``.
        precision: z = Σ α ``[B]``; large where the draws agree.
    """

    probs: Tensor
    concentration: Tensor
    precision: Tensor

    @property
    def labels(self) -> Tensor:
        """Most probable class ``[B]``."""
        return self.probs.argmax(-1)

    @property
    def confidence(self) -> Tensor:
        """Probability of the most probable class ``[B]``."""
        return self.probs.amax(-1)

    @cached_property
    def _uncertainty(self) -> dirichlet.Uncertainty:
        return dirichlet.uncertainty(self.concentration)

    @property
    def total(self) -> Tensor:
        """Entropy of the Dirichlet's mean, in nats ``[B]``."""
        return self._uncertainty.total

    @property
    def aleatoric(self) -> Tensor:
        """Expected entropy under the Dirichlet: what no model could resolve ``[B]``."""
        return self._uncertainty.aleatoric

    @property
    def epistemic(self) -> Tensor:
        """Mutual information of label and function: what more data could resolve ``[B]``."""
        return self._uncertainty.epistemic

    def __len__(self) -> int:
        """Return B."""
        return len(self.probs)


@torch.no_grad()
def predict(
    model: StochasticClassifier,
    x: Tensor,
    *,
    num_samples: int | None = None,
    num_data: int = 1_000_000,
    batch_size: int = 4096,
    smoothing: float = 1e-4,
    seed: int | None = None,
) -> Prediction:
    """Predict class probabilities with their epistemic uncertainty.

    Args:
        model: a stochastic classifier; run in evaluation mode and left in the mode it came in.
        x: inputs ``[B, ...]``.
        num_samples: draws; ``None`` takes the model's evaluation default.
        num_data: N, the cap of the fitted precision (the size of the training set in the paper).
        batch_size: inputs per forward pass.
        smoothing: γ with which draws are smoothed before the Dirichlet is fitted to them.
        seed: of the draws; ``None`` is torch's global generator.

    Returns:
        Probabilities, concentration, precision and uncertainties, on the model's device.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MCDropout(felbo.networks.mlp(2, (8,), 3))
        >>> felbo.predict(model, torch.zeros(5, 2), seed=0).epistemic.shape
        torch.Size([5])
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
    was_training = model.training
    parameter = next(model.parameters(), None)
    device = x.device if parameter is None else parameter.device
    try:
        model.eval()
        with torch_seed(seed):
            parts = [
                from_draws(model(chunk.to(device), num_samples).softmax(-1), num_data, smoothing)
                for chunk in x.split(batch_size)
            ]
    finally:
        model.train(was_training)
    columns = ((getattr(part, f.name) for part in parts) for f in fields(Prediction))
    return Prediction(*(torch.cat(list(column)) for column in columns))


def from_draws(probs: Tensor, num_data: int, smoothing: float) -> Prediction:
    """Fit the Dirichlet to draws ``[M, B, K]``."""
    smoothed = dirichlet.smooth(probs, smoothing)
    cap = float(max(num_data, probs.shape[-1]))
    fitted = dirichlet.fit(smoothed, max_precision=cap)
    return Prediction(probs.mean(0), fitted.concentration, fitted.precision)
