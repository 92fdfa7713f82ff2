"""MAP: one weight vector, one draw."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from felbo.models.base import StochasticClassifier


class MAP(StochasticClassifier):
    """A plain network seen as a stochastic classifier: every draw is the same function.

    Args:
        network: any module that maps ``[B, ...]`` to logits ``[B, K]``. It is copied.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MAP(felbo.networks.mlp(2, (25, 25), 3))
        >>> model(torch.zeros(4, 2)).shape
        torch.Size([1, 4, 3])
    """

    training_samples = 1
    evaluation_samples = 1

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(network)

    def forward(self, x: Tensor, num_samples: int | None = None) -> Tensor:
        """Return logits ``[M, B, K]``, the same for all M draws."""
        samples = self.resolve_samples(num_samples)
        logits: Tensor = self.network(x)
        draw = logits.unsqueeze(0)
        return draw if samples == 1 else draw.expand(samples, *logits.shape)
