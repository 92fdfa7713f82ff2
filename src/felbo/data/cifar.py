"""Read the pickled batches of CIFAR without executing code from the pickle.

A pickle from the network can import any function and call it; even numpy's own array type can be
made to read foreign memory. So nothing is imported: the four names that a batch needs are mapped to
stand-ins defined here, which accept an array of bytes, and every other name is refused. What would
take more memory or time than any batch is refused before it is loaded.
"""

import io
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from felbo.data.errors import CorruptDataError
from felbo.data.opcodes import check_opcodes

__all__ = ["CifarBatch", "parse_cifar_batch"]


class _Dtype:
    """Stand-in for ``numpy.dtype``: stores the name, and ignores byte order and other state."""

    def __init__(self, name: object, *_: object) -> None:
        name = name.decode() if isinstance(name, bytes) else name
        # The text of nested containers can be much longer than the file.
        self.name = name if isinstance(name, str) else type(name).__name__

    def __setstate__(self, state: object) -> None:
        pass


class _Array:
    """Stand-in for a numpy array that is being unpickled; accepts unsigned bytes only."""

    values: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)

    def __setstate__(self, state: tuple[object, tuple[int, ...], object, bool, bytes]) -> None:
        _, shape, dtype, fortran, content = state
        if not isinstance(dtype, _Dtype) or dtype.name != "u1" or type(content) is not bytes:
            kind = dtype.name if isinstance(dtype, _Dtype) else type(dtype).__name__
            raise pickle.UnpicklingError(f"it holds an array of {kind!r} instead of bytes ('u1')")
        order: Any = "F" if fortran else "C"
        self.values = np.frombuffer(content, dtype=np.uint8).reshape(shape, order=order)


def _rebuild(*_: object) -> _Array:
    return _Array()


# The files pass it as an argument to the reconstruction function; it is never called.
_ARRAY_TYPE = object()
STAND_INS: dict[tuple[str, str], Any] = {
    # numpy moved its core from numpy.core to numpy._core.
    ("numpy.core.multiarray", "_reconstruct"): _rebuild,
    ("numpy._core.multiarray", "_reconstruct"): _rebuild,
    ("numpy", "ndarray"): _ARRAY_TYPE,
    ("numpy", "dtype"): _Dtype,
}


class CifarBatch(NamedTuple):
    """Images [N, 3, 32, 32] as uint8 and labels [N] as int64."""

    images: Tensor
    labels: Tensor


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickler restricted to arrays of bytes and plain Python values."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch needs")
        return STAND_INS[module, name]


def parse_cifar_batch(
    pickled: bytes, *, num_classes: int, source: Path | str, remedy: str = ""
) -> CifarBatch:
    """Read one batch of CIFAR-10 or CIFAR-100 (fine labels) from memory.

    Args:
        pickled: The whole file.
        num_classes: K; labels must lie in 0 … K − 1.
        source: Name of the file in error messages.
        remedy: Appended to error messages: what the user should do.

    Raises:
        CorruptDataError: Not a pickle, a pickle that names anything but arrays of bytes (it is not
            executed) or has opcodes that no batch needs, or content that is not N rows of 3,072
            bytes with N labels.
    """
    try:
        check_opcodes(pickled)
        content = _ArrayUnpickler(io.BytesIO(pickled), encoding="bytes").load()
    except Exception as error:  # a damaged pickle can fail inside any opcode, with any exception
        raise CorruptDataError(
            source,
            expected="a pickled batch of numpy arrays",
            came=f"{len(pickled):,} bytes that were refused ({type(error).__name__}: {error})",
            remedy=remedy,
        ) from error
    data, labels = _fields(content)
    problem = _problem(data, labels, num_classes)
    if problem:
        raise CorruptDataError(
            source,
            expected=f"uint8 rows of 3,072 bytes, each with a label below {num_classes}",
            came=problem,
            remedy=remedy,
        )
    return CifarBatch(
        images=torch.tensor(data.values).view(-1, 3, 32, 32),
        labels=torch.tensor(labels, dtype=torch.int64),
    )


def _fields(content: object) -> tuple[Any, Any]:
    if not isinstance(content, dict):
        return None, None
    return content.get(b"data"), content.get(b"labels", content.get(b"fine_labels"))


def _problem(data: Any, labels: Any, num_classes: int) -> str | None:
    if not isinstance(data, _Array) or not isinstance(labels, list):
        return "a pickle without an array `data` and a list `labels` or `fine_labels`"
    shape = data.values.shape
    if len(shape) != 2 or shape[1] != 3072:
        return f"an array with shape {shape}"
    if len(labels) != shape[0]:
        return f"{shape[0]:,} rows with {len(labels):,} labels"
    if not all(type(label) is int and 0 <= label < num_classes for label in labels):
        return "labels outside that range"
    return None
