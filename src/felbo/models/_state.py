"""Encode a model's class and settings as a tensor, so that state dicts hold only tensors."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from felbo.errors import StateError


def packed(settings: dict[str, Any]) -> Tensor:
    """Encode settings as JSON bytes in a uint8 tensor."""
    return torch.tensor(list(json.dumps(settings).encode()), dtype=torch.uint8)


def unpacked(state: Tensor) -> dict[str, Any]:
    """Decode the settings that :func:`packed` encoded."""
    settings: dict[str, Any] = json.loads(bytes(state.to(torch.uint8).tolist()))
    return settings


def check_same_kind(given: Tensor, own: Tensor) -> None:
    """Raise if a state dict was saved by another model class, or with other settings."""
    theirs, ours = unpacked(given), unpacked(own)
    if theirs["kind"] != ours["kind"]:
        raise StateError(
            f"This state dict comes from a {theirs['kind']} and the model is a {ours['kind']}. "
            f"Load it into a {theirs['kind']} built as that one was; to start another kind of "
            "model from its weights, wrap its network in that kind."
        )
    different = [name for name in ours if theirs.get(name) != ours[name]]
    if different:
        raise StateError(
            f"This state dict comes from a {ours['kind']} with "
            + ", ".join(f"{name}={theirs.get(name)!r}" for name in different)
            + " and the model has "
            + ", ".join(f"{name}={ours[name]!r}" for name in different)
            + ": build the model with the same settings."
        )
