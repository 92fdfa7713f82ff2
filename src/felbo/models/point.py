"""MAP: a single network with deterministic weights."""

from __future__ import annotations

from torch import Tensor, nn

from felbo.inputs import Inputs
from felbo.models._wrapping import own_copy
from felbo.models.base import StochasticClassifier


class MAP(StochasticClassifier):
    """A plain network as a stochastic classifier: all draws are equal.

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
        self.network = own_copy(network)
        self._take_mode_of(self.network)

    @property
    def is_random(self) -> bool:
        """False: all draws are equal."""
        return False

    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return logits ``[M, B, K]``, the same for all M draws."""
        samples = self.resolve_samples(num_samples)
        draw = self.checked(self.run_network(self.network, x).unsqueeze(0))
        return draw if samples == 1 else draw.expand(samples, -1, -1)
