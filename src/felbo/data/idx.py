"""Read the idx format of MNIST: a big-endian header, then the raw bytes of one array.

The header is two zero bytes, a type code (8: unsigned byte), the number of axes, and each axis'
length as a 32-bit integer. Files are gzipped; gzip's own checksum catches flipped bits.
"""

import gzip
import io
import math
import struct
import zlib
from pathlib import Path

import torch
from torch import Tensor

from felbo.data.errors import CorruptDataError

__all__ = ["parse_idx"]

UNSIGNED_BYTE = 8
# Several times the largest published file, unpacked.
LARGEST = 256 << 20


def parse_idx(compressed: bytes, *, num_axes: int, source: Path | str, remedy: str = "") -> Tensor:
    """Read a gzipped idx file of unsigned bytes from memory.

    Args:
        compressed: The whole file.
        num_axes: 3 for images, 1 for labels.
        source: Name of the file in error messages.
        remedy: Appended to error messages: what the user should do.

    Returns:
        A uint8 tensor of the shape in the header.

    Raises:
        CorruptDataError: Truncated or damaged gzip, wrong magic number, or a length that does not
            match the header.
    """
    try:
        with gzip.open(io.BytesIO(compressed)) as stream:
            raw = stream.read(LARGEST + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error, struct.error) as error:
        raise CorruptDataError(
            source,
            expected="a complete gzip file",
            came=f"{len(compressed):,} bytes that do not decompress ({error})",
            remedy=remedy,
        ) from error
    if len(raw) > LARGEST:
        raise CorruptDataError(
            source, expected=f"at most {LARGEST:,} bytes", came="more", remedy=remedy
        )
    header_size = 4 + 4 * num_axes
    expected_magic = UNSIGNED_BYTE << 8 | num_axes
    magic = int.from_bytes(raw[:4], "big")
    if len(raw) < header_size or magic != expected_magic:
        raise CorruptDataError(
            source,
            expected=f"magic number {expected_magic} (unsigned bytes, {num_axes} axes)",
            came=f"{magic} in a file of {len(raw):,} bytes",
            remedy=remedy,
        )
    shape = struct.unpack(f">{num_axes}I", raw[4:header_size])
    if len(raw) - header_size != math.prod(shape):
        raise CorruptDataError(
            source,
            expected=f"{math.prod(shape):,} bytes for the shape {shape} in its header",
            came=f"{len(raw) - header_size:,}",
            remedy=remedy,
        )
    if not math.prod(shape):
        return torch.empty(shape, dtype=torch.uint8)
    # bytearray: torch shares memory with the buffer, which must be writable.
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8, offset=header_size).view(shape)
