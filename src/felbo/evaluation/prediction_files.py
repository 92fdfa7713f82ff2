"""Read and write predictions as ``.npz`` files: arrays only, nothing that could be executed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from felbo._arrays import read_npz
from felbo._container import SavedFileError
from felbo._files import write_atomically
from felbo.errors import MissingFileError

Arrays = dict[str, np.ndarray[Any, Any]]

# Raised when the arrays of a file change.
VERSION = 1
# Numbers that belong to the spread of draws.
SETTINGS = ("draws", "smoothing", "max_precision")


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write the arrays of a prediction atomically; missing folders are created."""
    buffer = io.BytesIO()
    np.savez(buffer, version=np.asarray(VERSION), **arrays)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def read_arrays(path: Path) -> Arrays:
    """Read the arrays that :func:`write_arrays` wrote.

    Raises:
        MissingFileError: if there is no such file.
        SavedFileError: if the file is damaged, of another kind, or of a newer version.
    """
    try:
        arrays = read_npz(path)
    except FileNotFoundError as error:
        raise MissingFileError(f"There is no saved prediction {path}.") from error
    except ValueError as error:
        raise SavedFileError(
            f"{path} is damaged or was not written by Prediction.save: {error} Predict again, and "
            "save the result."
        ) from error
    _check(arrays, path)
    return arrays


def _check(arrays: Arrays, path: Path) -> None:
    version = arrays.pop("version", np.asarray(0))
    if version.shape == () and version.dtype.kind == "i" and int(version) > VERSION:
        raise SavedFileError(
            f"{path} has version {version} of the format, and this felbo reads up to {VERSION}: "
            "update felbo to read it."
        )
    probs = arrays.get("probs", np.zeros(()))
    shapes = {"probs": probs.shape}
    if "concentration" in arrays:
        shapes["concentration"] = probs.shape
    else:
        shapes |= {"spread": probs.shape[:1], **dict.fromkeys(SETTINGS, ())}
    found = {name: array.shape for name, array in arrays.items()}
    typed = all(_has_its_type(name, array.dtype) for name, array in arrays.items())
    if probs.ndim != 2 or found != shapes or not typed:
        held = [f"{name} {a.dtype} {list(a.shape)}" for name, a in arrays.items()]
        raise SavedFileError(
            f"{path} was not written by Prediction.save: it holds {', '.join(held) or 'nothing'}."
        )
    if not np.isfinite(probs).all():
        raise SavedFileError(f"{path} was not written by Prediction.save: probs are not finite.")


def _has_its_type(name: str, dtype: np.dtype[Any]) -> bool:
    if name in SETTINGS:
        return dtype.kind in ("iu" if name == "draws" else "iuf")
    return dtype in (np.float32, np.float64)
