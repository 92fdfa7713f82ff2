"""Settings of a training in words, by which a checkpoint of another one is recognised."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import TensorDataset

from felbo.errors import CheckpointError
from felbo.inputs import tensors
from felbo.objectives import Objective
from felbo.training.batches import TensorBatches
from felbo.training.generators import find_parts
from felbo.training.sources import Batches

# Attributes that a training changes, and tensors that are too large to show.
CHANGING, SHOWN = frozenset({"step", "full_batch"}), 64
# Rows of the inputs that tell data apart.
ROWS = 64


def describe_weights(model: nn.Module) -> str:
    """Return the number of tensors and values in a state dict, and a digest of names and shapes."""
    state = {name: part for name, part in model.state_dict().items() if isinstance(part, Tensor)}
    # The text of a model's settings grows once the number of data is known.
    shapes = {n: (list(p.shape), str(p.dtype)) for n, p in state.items() if "_extra" not in n}
    count = sum(state[name].numel() for name in shapes)
    return f"{len(shapes)} tensors of {count} values [{_digest(repr(shapes).encode())}]"


def describe_optimizer(optimizer: Optimizer) -> str:
    """Return the class of an optimiser and its settings."""
    return _call(type(optimizer).__name__, optimizer.defaults)


def describe_objective(objective: Objective) -> list[str]:
    """Return the classes and settings of an objective's parts: terms, measurement sets, priors."""
    own = [p for p in find_parts(objective) if type(p).__module__.startswith("felbo.")]
    return [_call(type(part).__name__, _fields(part)) for part in own]


def describe_data(batches: Batches) -> str:
    """Return the number of items; for tensors also a digest of labels and of some inputs."""
    if isinstance(batches, TensorBatches):
        x, y, count = [*tensors(batches.x)], batches.y, f"{batches.size} items"
    elif isinstance(held := batches.loader.dataset, TensorDataset):
        *x, y = held.tensors
        count = f"{len(y)} items in {len(batches.loader)} batches"
    else:
        return f"{batches.size} items"
    rows = torch.linspace(0, len(y) - 1, min(ROWS, len(y))).round().long()
    parts = [part[rows.to(part.device)] for part in x]
    return f"{count} [{_digest(*(_bytes(part) for part in (*parts, y)))}]"


def check_settings_agree(saved: dict[str, Any], own: dict[str, Any], where: Any) -> None:
    """Raise if a checkpoint was made with other settings.

    Raises:
        CheckpointError: says which.
    """
    different = [name for name in own if saved.get(name) != own[name]]
    if different:
        listed = "; ".join(f"{n} was {saved.get(n)!r} and is {own[n]!r}" for n in different)
        raise CheckpointError(
            f"{where} belongs to another training: {listed}. Use the same settings to go on with "
            "it, or another folder."
        )


def _fields(part: Any) -> dict[str, Any]:
    return part._asdict() if isinstance(part, tuple) else vars(part)  # type: ignore[attr-defined,no-any-return]


def _call(name: str, settings: dict[str, Any]) -> str:
    shown = []
    for key, value in settings.items():
        if isinstance(value, Tensor) and value.numel() <= SHOWN:
            value = value.tolist()
        plain = value is None or isinstance(value, bool | int | float | str | list | tuple)
        if plain and key not in CHANGING and not key.startswith("_"):
            shown.append(f"{key}={value!r}" if _is_flat(value) else key)
    return f"{name}({', '.join(shown)})"


def _is_flat(value: Any) -> bool:
    """True for numbers and strings, and lists of them, whose text is the same in every process."""
    if isinstance(value, list | tuple):
        return all(_is_flat(part) for part in value)
    return value is None or isinstance(value, bool | int | float | str)


def _bytes(values: Tensor) -> bytes:
    return values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:12]
