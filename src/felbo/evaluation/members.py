"""A list of trained networks as an ensemble, with one draw per network."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from felbo.errors import DataError, InputTypeError, SettingError, ShapeError
from felbo.inputs import Inputs, run, run_on_copy
from felbo.models import StochasticClassifier
from felbo.models.base import refuse_probabilities


class Members:
    """Logits of a list of networks; the first batch is checked for what networks may get wrong."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self.networks, self.is_first, self.overwriting = networks, True, True

    def __call__(self, batch: Inputs) -> Tensor:
        """Return logits ``[M, B, K]``."""
        logits = self._logits(batch)
        classes = [part.shape[-1] for part in logits]
        if len(set(classes)) > 1:
            raise ShapeError(
                "All networks must give logits for the same number of classes, got "
                f"{classes} classes."
            )
        if self.is_first:
            self.is_first = False
            for part in logits:
                refuse_probabilities(part, "a network in the list")
            _warn_of_copies(logits)
        return torch.stack(logits)

    def _logits(self, batch: Inputs) -> list[Tensor]:
        """Return logits ``[B, K]`` of each network, on copies where one overwrites its input."""
        if not self.overwriting:
            return [run(network, batch) for network in self.networks]
        pairs = [run_on_copy(network, batch) for network in self.networks]
        self.overwriting = not all(untouched for _, untouched in pairs)
        return [logits for logits, _ in pairs]


def _warn_of_copies(logits: Sequence[Tensor]) -> None:
    """Warn if two networks have the same outputs, as the same network given twice."""
    first: dict[bytes, int] = {}
    for index, part in enumerate(logits):
        # The outputs for a few inputs differ if any weight that matters does.
        outputs = part[:16].float().cpu().numpy().tobytes()
        other = first.setdefault(outputs, index)
        if other != index:
            warnings.warn(
                f"Networks {other} and {index} of the list give exactly the same outputs: are they "
                "copies of one network? Draws that agree for this reason make the epistemic "
                "uncertainty too small.",
                stacklevel=6,
            )
            return


def check_networks(networks: Sequence[Any], num_samples: int | None) -> None:
    """Raise unless the list holds plain networks, as many as draws are asked for."""
    if not networks:
        raise DataError("The list of networks is empty; an ensemble needs at least one.")
    for network in networks:
        if isinstance(network, StochasticClassifier):
            raise InputTypeError(
                f"{type(network).__name__} gives draws of its own; predict with it by itself. A "
                "list holds plain networks."
            )
        if not isinstance(network, nn.Module):
            raise InputTypeError(
                f"A list holds networks (nn.Module), got {type(network).__name__}."
            )
    if num_samples not in (None, len(networks)):
        raise SettingError(
            f"{len(networks)} networks give exactly that many draws, got num_samples={num_samples}."
        )
