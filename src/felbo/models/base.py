"""What every stochastic classifier can do: give draws of its logits."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class StochasticClassifier(nn.Module, ABC):
    """A network with random weights ``w ~ q(w)``; each draw is one function ``x -> logits``.

    A subclass says how many draws it takes by default (``training_samples`` while the module is in
    training mode, ``evaluation_samples`` otherwise) and how a draw is made. Random numbers come
    from torch's global generator, as in every ``nn.Module``; seed it with
    :func:`felbo.seed_everything`, or pass ``seed`` to :func:`felbo.predict`.
    """

    training_samples: int = 1
    evaluation_samples: int = 10
    # Fewest inputs in a training step that takes the default number of draws.
    smallest_batch: int = 1

    @abstractmethod
    def forward(self, x: Tensor, num_samples: int | None = None) -> Tensor:
        """Return logits of ``M`` draws.

        Args:
            x: inputs ``[B, ...]``.
            num_samples: M; ``None`` takes the model's default for its current mode.

        Returns:
            Logits ``[M, B, K]``: the draws always come first and are never folded into the batch.
        """

    def weight_kl(self) -> Tensor:
        """KL[q(w) || p(w)], summed over all weights; 0 for a model without a weight posterior."""
        parameter = next(self.parameters(), None)
        return torch.zeros(()) if parameter is None else parameter.new_zeros(())

    def resolve_samples(self, num_samples: int | None) -> int:
        """Return the number of draws to take, refusing less than one."""
        default = self.training_samples if self.training else self.evaluation_samples
        samples = default if num_samples is None else num_samples
        if samples < 1:
            raise ValueError(f"num_samples must be at least 1, got {samples}.")
        return samples
