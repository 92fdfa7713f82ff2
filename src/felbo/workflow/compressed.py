"""Open compressed text with a limit of its size, so that a small file cannot fill the memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from pathlib import Path
from typing import IO, Any

from felbo.workflow.errors import InputError

# Text that is packed this much tighter is no table, once it is large.
RATIO, SMALL = 200, 64 << 20
SUFFIXES = (".gz", ".bz2", ".xz", ".zip")


class _Limited(io.RawIOBase):
    """A stream that ends with an error instead of going on beyond a number of bytes."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.stream, self.path = stream, path
        self.left = max(SMALL, RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            content = self.stream.read(len(buffer))
        # A damaged file can fail in any of the modules, with any exception.
        except Exception as error:
            raise InputError(f"{self.path} is damaged: {error}") from error
        self.left -= len(content)
        if self.left < 0:
            raise InputError(
                f"{self.path} unpacks to more than {RATIO} times its size. If that is right, "
                "unpack it first."
            )
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self.stream.close()
        super().close()


def opened(path: Path) -> Path | IO[bytes]:
    """Return a compressed file as a stream of its content, and any other as its path."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        return path
    if suffix == ".zip":
        return io.BufferedReader(_Limited(_only_member(path), path))
    module: Any = {".gz": gzip, ".bz2": bz2, ".xz": lzma}[suffix]
    return io.BufferedReader(_Limited(module.open(path), path))


def _only_member(path: Path) -> IO[bytes]:
    try:
        archive = zipfile.ZipFile(path)
        (name,) = archive.namelist()
        return archive.open(name)
    except Exception as error:  # as above
        raise InputError(f"{path} is no zip file of one table: {error}") from error
