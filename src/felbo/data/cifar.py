"""The python batches of CIFAR: pickles, read without letting them run anything.

A pickle from the network can name any importable function and call it. These batches only need
what rebuilds a numpy array, so every other name is refused before it is looked up.
"""

import io
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from felbo.data.errors import CorruptDataError

__all__ = ["CifarBatch", "parse_cifar_batch"]

# Taken from an array, since numpy moved it from numpy.core to numpy._core.
_rebuild_array = np.empty(0).__reduce__()[0]
HARMLESS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _rebuild_array,
    ("numpy._core.multiarray", "_reconstruct"): _rebuild_array,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class CifarBatch(NamedTuple):
    """Images [N, 3, 32, 32] as uint8 and labels [N] as int64."""

    images: Tensor
    labels: Tensor


class _ArrayUnpickler(pickle.Unpickler):
    """An unpickler that knows numpy arrays and plain Python values, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in HARMLESS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch needs")
        return HARMLESS[module, name]


def parse_cifar_batch(
    pickled: bytes, *, num_classes: int, source: Path | str, remedy: str = ""
) -> CifarBatch:
    """Read one batch of CIFAR-10 or CIFAR-100 (fine labels) from memory.

    Args:
        pickled: The whole file.
        num_classes: K; labels are to lie in 0 … K − 1.
        source: What to call the file in an error.
        remedy: What an error tells the reader to do.

    Raises:
        CorruptDataError: Not a pickle, a pickle that names anything but numpy arrays (it is not
            executed), or content that is not N rows of 3,072 bytes with N labels.
    """
    try:
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
        images=torch.from_numpy(np.ascontiguousarray(data)).view(-1, 3, 32, 32),
        labels=torch.tensor(labels, dtype=torch.int64),
    )


def _fields(content: object) -> tuple[Any, Any]:
    if not isinstance(content, dict):
        return None, None
    return content.get(b"data"), content.get(b"labels", content.get(b"fine_labels"))


def _problem(data: Any, labels: Any, num_classes: int) -> str | None:
    if not isinstance(data, np.ndarray) or not isinstance(labels, list):
        return "a pickle without an array `data` and a list `labels` or `fine_labels`"
    if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3072:
        return f"an array of {data.dtype} with shape {data.shape}"
    if len(labels) != len(data):
        return f"{len(data):,} rows with {len(labels):,} labels"
    if not all(type(label) is int and 0 <= label < num_classes for label in labels):
        return "labels outside that range"
    return None
