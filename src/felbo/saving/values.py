"""Arrays and single values as JSON that gives back the same values and types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from felbo.errors import InputTypeError

# Bytes of a value; a label of text takes four per character.
LONGEST = 1 << 16


def pack(value: Any) -> Any:
    """Return a string, number, truth value or ``None`` as JSON.

    Raises:
        TypeError: if the value is of another type.
    """
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return {"number": str(plain)}
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    raise InputTypeError(
        f"Only strings, numbers and truth values can be saved, got {type(plain).__name__} "
        f"{plain!r}."
    )


def unpack(value: Any) -> Any:
    """Return the value that :func:`pack` was given."""
    return float(value["number"]) if isinstance(value, dict) else value


def pack_array(array: NDArray[Any]) -> dict[str, Any]:
    """Return a one-dimensional array as JSON.

    Example:
        >>> unpack_array(pack_array(np.array(["no", "yes"])))
        array(['no', 'yes'], dtype='<U3')
    """
    return {"dtype": array.dtype.str, "values": [pack(value) for value in array.tolist()]}


def unpack_array(packed: dict[str, Any]) -> NDArray[Any]:
    """Return the array that :func:`pack_array` was given."""
    dtype = np.dtype(packed["dtype"])
    if dtype.itemsize > LONGEST:  # every value would take that much memory
        raise ValueError(f"values of {dtype.itemsize} bytes are too long")
    return np.array([unpack(value) for value in packed["values"]], dtype=dtype)
