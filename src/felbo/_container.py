"""One file of tensors and JSON: safetensors, with a format version and checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from felbo._files import write_atomically
from felbo.errors import FelboError, MissingFileError

# Raised with every change that older versions of felbo would misread.
FORMAT = 1
_ENTRY, _CONTENT, _CHECKSUM = "felbo", "content", "sha256"


class SavedFileError(FelboError, ValueError):
    """A saved file is damaged, from a newer version, or not one of felbo's."""


def write(
    path: Path, content: Mapping[str, Any], tensors: Mapping[str, Tensor], sync: bool = False
) -> None:
    """Write tensors and JSON to one file, atomically.

    Args:
        path: the file; missing folders are created.
        content: plain dicts, lists, strings and numbers.
        tensors: by name; they are copied to the CPU.
        sync: wait until the file is on the disk, so that it outlives a power failure.
    """
    # Copies, since safetensors refuses tensors that share memory, such as tied weights.
    own = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    text = json.dumps({"format": FORMAT, **content}, allow_nan=False, sort_keys=True)
    # One entry: safetensors writes several in random order, and equal models give equal files.
    entry = json.dumps({_CHECKSUM: _checksum(text, own), _CONTENT: text})
    write_atomically(path, to_bytes(own, {_ENTRY: entry}), sync)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the JSON and the tensors of a file; nothing in the file is run.

    Raises:
        FileNotFoundError: if there is no such file.
        SavedFileError: if the file is damaged, newer than this felbo, or something else.
    """
    if not path.is_file():
        raise MissingFileError(f"There is no saved model {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except Exception as error:  # types that torch lacks, or no memory, raise others
        raise SavedFileError(
            f"{path} cannot be read as a saved model: {error}. It is damaged or incomplete, or "
            "was not written by felbo.save; copy or save it again."
        ) from error
    entry = metadata.get(_ENTRY)
    if entry is None:
        raise SavedFileError(
            f"{path} is a safetensors file without felbo's description of the model. Build the "
            "model yourself and load its weights with safetensors.torch.load_file."
        )
    return _checked(path, entry, tensors), tensors


def _checked(path: Path, entry: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Return the JSON, after the version and then the checksum, which a newer one may compute."""
    damaged = SavedFileError(
        f"{path} is damaged: its content does not match its checksum. Copy or save it again."
    )
    try:
        outer = json.loads(entry)
        text, checksum = str(outer[_CONTENT]), outer[_CHECKSUM]
        content: dict[str, Any] = json.loads(text)
        version = int(content["format"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged from error
    if version > FORMAT:
        raise SavedFileError(
            f"{path} has format {version} and this felbo reads formats up to {FORMAT}: it was "
            "written by a newer felbo. Upgrade felbo to load it."
        )
    if checksum != _checksum(text, tensors):
        raise damaged
    return content


def _checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of the JSON and of the name, type, shape and bytes of every tensor."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
