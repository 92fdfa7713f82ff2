"""Nested states (dicts, lists, numbers, tensors) as JSON beside named tensors, and back."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from torch import Tensor

from felbo.errors import CheckpointError


def encode(value: Any, tensors: dict[str, Tensor], path: str) -> Any:
    """Return a state as JSON; its tensors are added to ``tensors`` under the path to each.

    Dicts may have keys of any plain type. Functions in dicts are left out: states of schedulers
    hold some, and a scheduler that is built anew has them.

    Args:
        value: the state.
        tensors: is filled.
        path: of the value, for names of tensors and messages.

    Example:
        >>> import torch
        >>> found = {}
        >>> encode({0: [torch.ones(2), None]}, found, "state")
        {'dict': [[0, {'list': [{'tensor': '0 state.0.0'}, None]}]]}
        >>> found
        {'0 state.0.0': tensor([1., 1.])}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, Tensor):
        name = f"{len(tensors)} {path}"  # numbered, since keys may hold any character
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, np.generic):
        return encode(value.item(), tensors, path)
    if isinstance(value, dict):
        kind = "counter" if isinstance(value, Counter) else "dict"
        kept = [(key, part) for key, part in value.items() if not callable(part)]
        return {kind: [[key, encode(part, tensors, f"{path}.{key}")] for key, part in kept]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [encode(part, tensors, f"{path}.{i}") for i, part in enumerate(value)]}
    raise CheckpointError(
        f"{path} is a {type(value).__name__}, which a checkpoint cannot hold: it holds tensors, "
        "numbers, strings, and dicts, lists and tuples of these."
    )


def decode(packed: Any, tensors: dict[str, Tensor]) -> Any:
    """Return the state that :func:`encode` was given."""
    if not isinstance(packed, dict):
        return packed
    if "dtype" in packed:
        dtype = np.dtype(packed["dtype"])
        if dtype.kind not in "iuf":  # states of generators are numbers
            raise TypeError(f"an array of {dtype} is no state")
        return np.array(packed["array"], dtype=dtype)
    ((kind, content),) = packed.items()
    if kind == "float":
        return float(content)
    if kind == "tensor":
        # A copy is aligned as every tensor of torch; a sum over one from a file, which may start at
        # any address, can differ in its last bit.
        return tensors[content].clone()
    if kind in ("dict", "counter"):
        pairs = {key: decode(part, tensors) for key, part in content}
        return Counter(pairs) if kind == "counter" else pairs
    parts = [decode(part, tensors) for part in content]
    return parts if kind == "list" else tuple(parts)
