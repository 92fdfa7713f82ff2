"""Read untrusted NPZ files: arrays of plain values only, of a size that is known beforehand."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

# Bytes of all arrays of a file that is read as a whole.
LARGEST = 4 << 30
# Bytes of the last record of an archive, with the longest comment.
LAST_RECORD = 22 + 0xFFFF


def read_npz(path: Path, largest: int = LARGEST) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of an NPZ file.

    Nothing is unpickled, and nothing is allocated before the sizes in the archive and in the
    headers of the arrays agree and stay below a limit, so that a small file cannot fill the memory.

    Args:
        path: of the file.
        largest: bytes of all arrays together.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is damaged, too large, or holds anything but arrays of numbers,
            truth values and strings.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = members_of(archive, path)
            size = sum(member.file_size for member in members)
            if size > largest:
                raise ValueError(f"its arrays have {size:,} bytes, more than {largest:,}")
            return {m.filename.removesuffix(".npy"): _array(archive, m) for m in members}
    except FileNotFoundError:
        raise
    except ValueError:
        raise
    # A damaged archive can fail in the module for zip files with any exception.
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def members_of(archive: zipfile.ZipFile, path: Path) -> list[zipfile.ZipInfo]:
    """Return the members of an archive.

    A flipped bit in the length of a comment hides the members after it, and :mod:`zipfile` does not
    compare their number with the one in the last record of the file.

    Raises:
        ValueError: if members are missing.
    """
    members = archive.infolist()
    with path.open("rb") as file:
        file.seek(-min(path.stat().st_size, LAST_RECORD), io.SEEK_END)
        end = file.read()
    place = end.rfind(b"PK\x05\x06")
    count = int.from_bytes(end[place + 10 : place + 12], "little")
    # Larger numbers are in another record.
    if count != len(members) and count != 0xFFFF:
        raise ValueError(f"it lists {len(members)} arrays, and should list {count}")
    return members


def read_header(
    stream: IO[bytes], member: zipfile.ZipInfo
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, Fortran order and type of an array in an archive, before its values.

    Raises:
        ValueError: if the header asks for Python objects, or for another number of bytes than the
            archive holds.
    """
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{member.filename} has version {version} of the npy format")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.hasobject or dtype.kind not in "biufcUSmM" or not dtype.itemsize:
        raise ValueError(
            f"array {member.filename} holds {dtype}, Python objects or records: felbo does not "
            "unpickle"
        )
    if math.prod(shape) * dtype.itemsize != member.file_size - stream.tell():
        raise ValueError(f"array {member.filename} does not have the size that its header says")
    return shape, fortran, dtype


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    with archive.open(member) as stream:
        shape, fortran, dtype = read_header(stream, member)
        values = np.frombuffer(bytearray(stream.read()), dtype)
    return values.reshape(shape, order="F" if fortran else "C")
