"""Safe extraction of expected files from a tar.gz archive."""

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from felbo.data.errors import CorruptDataError
from felbo.data.registry import DataFile

__all__ = ["extract_expected"]

CHUNK = 1 << 20
# Several times the largest published file.
LARGEST = 1 << 30


def extract_expected(
    archive: Path, folder: Path, files: Iterable[DataFile], *, remedy: str = ""
) -> None:
    """Extract the expected members, and no others, from a tar.gz archive.

    A member is extracted if it is a regular file named `<folder name>/<file name>`; links, devices,
    absolute paths and everything unexpected are skipped. The target path is built from the name in
    the registry, never from the archive's, and the file is moved into place only after its md5 was
    checked.

    Args:
        archive: The archive.
        folder: The data set's folder; created if missing.
        files: The files to extract.
        remedy: Appended to error messages: what the user should do.

    Raises:
        CorruptDataError: An archive that cannot be read, a member with another md5, or one missing.
    """
    wanted = {f"{folder.name}/{file.name}": file for file in files}
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                if member.isreg() and member.name in wanted:
                    _check_size(member, archive, remedy)
                    content = tar.extractfile(member)
                    assert content is not None  # regular files always have content
                    _store(content, folder, wanted.pop(member.name), archive, remedy)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, OverflowError) as error:
        raise CorruptDataError(
            archive, expected="a readable tar.gz archive", came=str(error), remedy=remedy
        ) from error
    if wanted:
        raise CorruptDataError(
            archive,
            expected=f"the members {', '.join(sorted(wanted))}",
            came="an archive without them",
            remedy=remedy,
        )


def _check_size(member: tarfile.TarInfo, archive: Path, remedy: str) -> None:
    if member.size > LARGEST:
        raise CorruptDataError(
            f"{archive}, member {member.name}",
            expected=f"at most {LARGEST:,} bytes",
            came=f"{member.size:,}",
            remedy=remedy,
        )


def _store(content: IO[bytes], folder: Path, file: DataFile, archive: Path, remedy: str) -> None:
    part = folder / f"{file.name}.part"
    digest = hashlib.md5(usedforsecurity=False)
    # Remove first: a symlink of this name must not be followed.
    part.unlink(missing_ok=True)
    try:
        with part.open("xb") as target:
            while chunk := content.read(CHUNK):
                digest.update(chunk)
                target.write(chunk)
        if not file.accepts(digest.hexdigest()):
            raise CorruptDataError(
                f"{archive}, member {folder.name}/{file.name}",
                expected=f"md5 {file.md5}",
                came=f"md5 {digest.hexdigest()}",
                remedy=remedy,
            )
        os.replace(part, folder / file.name)
    finally:
        part.unlink(missing_ok=True)
