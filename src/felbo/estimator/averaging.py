"""Weight averaging over the last epochs of a training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class MeanWeights:
    """Average a model's weights and running statistics over the last third of the epochs.

    At a constant learning rate and with small batches, weights keep moving around those with the
    least loss, and their mean is closer to these than any of them. It is passed to a training as a
    scheduler, which is advanced after every epoch and saved with the checkpoints, so that a
    training that was interrupted ends with the same mean.

    Args:
        model: the model being trained.
        epochs: of the whole training; of fewer than six, the last one counts alone.
    """

    def __init__(self, model: nn.Module, epochs: int) -> None:
        self.model = model
        self.first = epochs - max(1, epochs // 3)
        self.passed = 0
        self.means: list[Tensor] = []

    def step(self) -> None:
        """Add the weights after an epoch to the average, if it is one of the last."""
        if self.passed == self.first:
            self.means = [_copied(part) for part in self._parts()]
        elif self.passed > self.first:
            share = 1.0 / (self.passed - self.first + 1)
            for mean, part in zip(self.means, self._parts(), strict=True):
                mean.lerp_(_copied(part), share)
        self.passed += 1

    @torch.no_grad()
    def apply(self) -> None:
        """Copy the averaged weights into the model."""
        for mean, part in zip(self.means, self._parts(), strict=True):
            part.copy_(mean)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"passed": self.passed, "means": self.means}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned."""
        self.passed, self.means = state["passed"], list(state["means"])

    def _parts(self) -> list[Tensor]:
        parts = [*self.model.parameters(), *self.model.buffers()]
        return [part for part in parts if part.is_floating_point()]


def _copied(part: Tensor) -> Tensor:
    """Return a copy in float64 on the processor, since not every device has that type."""
    return part.detach().to("cpu", torch.float64, copy=True)
