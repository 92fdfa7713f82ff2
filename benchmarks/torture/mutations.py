"""Damage files and read them: only a ``FelboError`` or a correct result is right."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import felbo


class Reader(NamedTuple):
    """A file and how it is read.

    Attributes:
        path: of the file.
        read: returns what the file holds, to be compared.
        exact: whether the format has checksums, so that no other content may be read.
        refusals: exceptions that refuse a file.
    """

    path: Path
    read: Callable[[Path], object]
    exact: bool
    refusals: tuple[type[Exception], ...] = (felbo.FelboError,)


class Counts(NamedTuple):
    """What became of damaged files.

    Attributes:
        refused: an error of felbo.
        same: the content of the whole file was read.
        other: other content was read, in a format without checksums.
        failed: any other exception, or other content in spite of checksums.
    """

    refused: int
    same: int
    other: int
    failed: int


def damaged(content: bytes, source: random.Random) -> bytes:
    """Cut a file, flip a bit, overwrite, remove, repeat or blank some bytes."""
    place = source.randrange(len(content))
    end = place + source.choice([1, 2, 8, 64])
    before, those, after = content[:place], content[place:end], content[end:]
    flipped = bytes([those[0] ^ 1 << source.randrange(8)]) + those[1:]
    changes = (
        before,
        before + flipped + after,
        before + source.randbytes(len(those)) + after,
        before + after,
        before + those + those + after,
        before + bytes(len(those)) + after,
    )
    return source.choice(changes)


def mutate(name: str, reader: Reader, count: int, source: random.Random) -> Counts:
    """Read a file ``count`` times, each time damaged in another way; print the failures."""
    content, expected = reader.path.read_bytes(), reader.read(reader.path)
    refused = same = other = 0
    for _ in range(count):
        changed = damaged(content, source)
        reader.path.write_bytes(changed)
        try:
            found = reader.read(reader.path)
        except reader.refusals:
            refused += 1
            continue
        except Exception as error:
            _keep(name, reader, changed, f"{type(error).__name__}: {error}")
            continue
        same += found == expected
        other += found != expected and not reader.exact
        if found != expected and reader.exact:
            _keep(name, reader, changed, "other content was read")
    reader.path.write_bytes(content)
    return Counts(refused, same, other, count - refused - same - other)


def _keep(name: str, reader: Reader, changed: bytes, what: str) -> None:
    print(f"FAILED {name}, {reader.path.name} of {len(changed)} bytes: {what[:300]}")
