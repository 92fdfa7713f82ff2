"""Read the files of CIFAR-10-C and CIFAR-100-C: one array per corruption, and one of labels.

`<corruption>.npy` is uint8 [5 N, H, W, 3], N images at severity 1, the same at severity 2, and so
on; `labels.npy` has the 5 N labels. The published ones have N = 10,000. CIFAR-10-C is at
https://zenodo.org/records/2535967 and CIFAR-100-C at https://zenodo.org/records/3555552.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from felbo.data.corruptions.names import SEVERITIES
from felbo.data.errors import CorruptDataError, MissingDataError
from felbo.data.registry import DatasetInfo

__all__ = ["FOLDERS", "LABELS", "read_images", "read_labels"]

FOLDERS: Mapping[str, str] = {"cifar10": "CIFAR-10-C", "cifar100": "CIFAR-100-C"}
HOMEPAGES: Mapping[str, str] = {
    "cifar10": "https://zenodo.org/records/2535967",
    "cifar100": "https://zenodo.org/records/3555552",
}
LABELS = "labels.npy"


def read_images(
    folder: Path, corruption: str, severity: int, info: DatasetInfo, count: int, limit: int
) -> Tensor:
    """Read the first `limit` images of one severity, uint8 [limit, 3, H, W].

    Args:
        folder: Folder of the files.
        corruption: One of `felbo.data.CORRUPTIONS`.
        severity: 1 to 5.
        info: The clean data set.
        count: N, the number of images per severity.
        limit: At most N.

    Raises:
        MissingDataError: No such file.
        CorruptDataError: Not an array of that shape and type, or truncated.
    """
    path = folder / f"{corruption}.npy"
    array = _open(path, info)
    channels, height, width = info.image_shape
    expected = (len(SEVERITIES) * count, height, width, channels)
    if array.dtype != np.uint8 or array.shape != expected:
        raise CorruptDataError(
            path,
            expected=f"uint8 of shape {expected}, as {LABELS} has {expected[0]:,} labels",
            came=f"{array.dtype} of shape {array.shape}",
            remedy=_remedy(info),
        )
    start = (severity - 1) * count
    chosen = np.ascontiguousarray(array[start : start + limit].transpose(0, 3, 1, 2))
    return torch.from_numpy(chosen)


def read_labels(folder: Path, info: DatasetInfo) -> Tensor:
    """Read the labels int64 [N], which are the same for all severities.

    Raises:
        MissingDataError: No such file.
        CorruptDataError: Not valid labels, or not the same labels for all five severities.
    """
    path = folder / LABELS
    array = _open(path, info)
    classes, severities = len(info.class_names), len(SEVERITIES)
    if (
        array.ndim != 1
        or not np.issubdtype(array.dtype, np.integer)
        or len(array) == 0
        or len(array) % severities != 0
        or not (array.reshape(severities, -1) == array[: len(array) // severities]).all()
        or not (array.min() >= 0 and array.max() < classes)
    ):
        raise CorruptDataError(
            path,
            expected=f"five times the same whole numbers below {classes}",
            came=f"{array.dtype} of shape {array.shape} that is not that",
            remedy=_remedy(info),
        )
    return torch.from_numpy(array[: len(array) // severities].astype(np.int64))


def _open(path: Path, info: DatasetInfo) -> np.ndarray[Any, Any]:
    if not path.is_file():
        raise MissingDataError(
            f"{FOLDERS[info.name]}: expected {path.name} in {path.parent}, but found no such file. "
            f"Get it from {HOMEPAGES[info.name]}, or write the folder with `felbo data corrupt "
            f"{info.name} --out {path.parent}`, or pass published=False to generate the images."
        )
    try:
        # Memory-mapped: a file has 154 MB, of which at most one severity is read.
        array: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    # A damaged header can fail in the parser of numpy or of Python, with any exception.
    except Exception as error:
        raise CorruptDataError(
            path,
            expected="a whole .npy array",
            came=f"{type(error).__name__}: {error}",
            remedy=_remedy(info),
        ) from error
    return array


def _remedy(info: DatasetInfo) -> str:
    return (
        f"Download it again from {HOMEPAGES[info.name]}, or delete it and write it with "
        f"`felbo data corrupt {info.name}`."
    )
