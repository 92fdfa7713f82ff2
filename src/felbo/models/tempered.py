"""Temperature scaling of a stochastic classifier, per draw or of the mean prediction."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from felbo._numbers import refuse_booleans
from felbo.errors import InputTypeError, SettingError
from felbo.inputs import Inputs
from felbo.models.base import StochasticClassifier


class Tempered(StochasticClassifier):
    """A model whose logits are divided by a temperature T, draw by draw: ``softmax(logits_m / T)``.

    Every draw becomes flatter (T > 1) or sharper (T < 1), and so does the Dirichlet fitted to them.
    For a model that predicts a concentration, the mean is tempered and the precision z is kept:
    ``α = z softmax(logits / T)``.

    Args:
        model: a stochastic classifier. It is not copied: both share their weights and their mode.
        temperature: T.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MAP(felbo.networks.mlp(2, (8,), 3))
        >>> x = torch.ones(4, 2)
        >>> torch.allclose(Tempered(model, 2.0)(x), model(x) / 2)
        True
    """

    temperature: Tensor

    def __init__(self, model: StochasticClassifier, temperature: float) -> None:
        super().__init__()
        if not isinstance(model, StochasticClassifier):
            raise InputTypeError(
                f"A temperature is for a stochastic classifier, got {type(model).__name__}; wrap a "
                "plain network first, for instance as felbo.MAP(network)."
            )
        refuse_booleans(temperature=temperature)
        if not 0.0 < temperature < math.inf:
            raise SettingError(f"temperature must be positive and finite, got {temperature}.")
        self.model = model
        self.register_buffer("temperature", torch.tensor(float(temperature)))
        self.training_samples = model.training_samples
        self.evaluation_samples = model.evaluation_samples
        self.smallest_batch = model.smallest_batch
        self.gives_concentration = model.gives_concentration
        self._take_mode_of(model)

    @property
    def is_random(self) -> bool:
        """True if the draws of the model can differ."""
        return self.model.is_random

    def settings(self) -> dict[str, Any]:
        """Return the class and the settings of the wrapped model."""
        return {"model": type(self.model).__name__, **self.model.settings()}

    def weight_kl(self) -> Tensor:
        """KL[q(w) || p(w)] of the wrapped model."""
        return self.model.weight_kl()

    def last_layer_parameters(self) -> list[nn.Parameter]:
        """Parameters of the wrapped model's last layer."""
        return self.model.last_layer_parameters()

    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return tempered logits ``[M, B, K]``."""
        logits: Tensor = self.model(x, num_samples)
        tempered = logits / self.temperature
        if not self.gives_concentration:
            return tempered
        return tempered.log_softmax(-1) + logits.logsumexp(-1, keepdim=True)


class TemperedMean(Tempered):
    """A model whose mean prediction is tempered: one draw, ``log p̄(x) / T``.

    ``p̄ = mean_m softmax(logits_m)``, and the prediction is proportional to ``p̄^{1/T}``. The draws
    are averaged first, so there is no epistemic uncertainty. Use it where only probabilities are
    needed, and :class:`Tempered` otherwise.

    Args:
        model: a stochastic classifier; shared, not copied.
        temperature: T.
        draws: number of draws in the mean; ``None`` takes the model's default for its mode.

    Example:
        >>> import torch, felbo
        >>> model = felbo.Ensemble(lambda: felbo.networks.mlp(2, (8,), 3), members=4)
        >>> TemperedMean(model, 2.0)(torch.ones(4, 2)).shape
        torch.Size([1, 4, 3])
    """

    def __init__(
        self, model: StochasticClassifier, temperature: float, draws: int | None = None
    ) -> None:
        super().__init__(model, temperature)
        self.training_samples = self.evaluation_samples = 1
        self.gives_concentration = False
        self.draws = draws

    @property
    def is_random(self) -> bool:
        """False: every draw is the mean prediction."""
        return False

    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return logits ``[M, B, K]``, the same for all M draws."""
        samples = self.resolve_samples(num_samples)
        mean = log_mean(self.model(x, self.draws)) / self.temperature
        return mean.unsqueeze(0).expand(samples, -1, -1)


def log_mean(logits: Tensor) -> Tensor:
    """Return ``log mean_m softmax(logits_m)``, ``[B, K]`` from ``[M, B, K]``."""
    return logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))
