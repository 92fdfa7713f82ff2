"""Early stopping on validation scores, with the best weights kept."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from felbo.training.history import ValidationScores

Monitor = Literal["nll", "loss", "accuracy"]


class StopTraining(Exception):  # noqa: N818  not an error
    """Raised by ``on_epoch`` to end :func:`felbo.fit` after the current epoch."""


class EarlyStopping:
    """Find the best epoch, keep its weights, and stop after some epochs without a better one.

    Args:
        model: what is trained.
        monitor: the score that decides: ``"nll"`` or ``"loss"`` (smaller is better), or
            ``"accuracy"`` (larger is better).
        patience: epochs without improvement; ``None`` never stops and keeps no weights.
    """

    def __init__(self, model: nn.Module, monitor: Monitor, patience: int | None) -> None:
        self.model, self.monitor, self.patience = model, monitor, patience
        self._best = math.inf
        self._waited = 0
        self._weights: dict[str, Any] = {}

    def update(self, scores: ValidationScores) -> bool:
        """Take the scores of an epoch; return True if it is better than all before it."""
        value = getattr(scores, self.monitor)
        value = -value if self.monitor == "accuracy" else value
        self._waited += 1
        if not value < self._best:
            return False
        self._best, self._waited = value, 0
        if self.patience is not None:
            self._weights = _copied(self.model.state_dict())
        return True

    @property
    def exhausted(self) -> bool:
        """True if there was no improvement for ``patience`` epochs."""
        return self.patience is not None and self._waited >= self.patience

    @property
    def keeps_best(self) -> bool:
        """True if :meth:`restore` changes the model."""
        return bool(self._weights)

    def restore(self) -> None:
        """Give the model the weights and statistics of the best epoch, if these are kept."""
        if self._weights:
            self.model.load_state_dict(self._weights)

    def get_state(self) -> dict[str, Any]:
        """Return best score, epochs waited and weights, for a checkpoint."""
        return {"best": self._best, "waited": self._waited, "weights": self._weights}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`get_state` returned."""
        self._best, self._waited = state["best"], state["waited"]
        self._weights = state["weights"]


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    with torch.no_grad():
        return {k: v.clone() if isinstance(v, Tensor) else v for k, v in state.items()}
