"""Small files in the publishers' formats, written independently of the readers under test."""

import gzip
import hashlib
import io
import pickle
import struct
from pathlib import Path

import numpy as np
from PIL import Image

from felbo.data.registry import Source


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def idx_bytes(array: np.ndarray) -> bytes:
    """An idx file as the format's definition has it, independent of the reader under test."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape)
    return gzip.compress(header + array.astype(np.uint8).tobytes())


def cifar_bytes(data: np.ndarray, labels: list[int], key: str = "labels") -> bytes:
    """A pickled batch; protocol 2 without `_codecs` is not on offer from Python 3, so 4 it is."""
    return pickle.dumps({b"data": data, key.encode(): labels}, protocol=4)


def png_bytes(pixels: np.ndarray) -> bytes:
    """A PNG file of uint8 [H, W, 3]."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    return stream.getvalue()


def lay_out(root: Path, info: Source, contents: dict[str, bytes]) -> None:
    folder = root / info.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
