"""Atomic writing of output files, and checks that files and folders can be written."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from felbo.errors import FelboError

# Suffix of a file that is still being written.
PART = ".part"
ATTEMPTS = 3


class OutputFolderError(FelboError, OSError):
    """An output folder or file cannot be created or written to."""


def write_atomically(path: Path, content: str | bytes, sync: bool = False) -> None:
    """Write a file under a temporary name and rename it, so that readers never see part of it.

    Missing folders are created. Text is written as UTF-8, with unchanged line endings.

    Args:
        path: of the file.
        content: text or bytes.
        sync: wait until file and name are on the disk, so that they outlive a power failure.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, ATTEMPTS + 1):
        part = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{PART}")
        try:
            with part.open("xb") as file:
                file.write(data)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            part.replace(path)
            if sync:
                _sync_folder(path.parent)
            return
        except FileNotFoundError:
            # Another process that just started may have removed it, see remove_parts.
            if attempt == ATTEMPTS:
                raise
        finally:
            part.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # where folders cannot be opened
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def remove_parts(folder: Path, stem: str = "") -> None:
    """Delete temporary files that :func:`write_atomically` left when a process was killed.

    Args:
        folder: need not exist.
        stem: prefix of the file names.
    """
    for part in folder.glob(f"{stem}*{PART}"):
        try:
            part.unlink(missing_ok=True)
        except PermissionError:  # on Windows: a file that is being written
            continue


def require_writable(folder: Path) -> None:
    """Raise if an output folder cannot be written to or created; it is not created.

    Raises:
        OutputFolderError: a file of that name exists, or there is no permission.
    """
    target = folder.absolute()
    nearest = next(path for path in (target, *target.parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise OutputFolderError(
            f"{folder} cannot be a folder for results: {nearest} is in the way and is no folder. "
            "Choose another folder or remove it."
        )
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise OutputFolderError(
            f"{folder} cannot be a folder for results: no permission to write in {nearest}. "
            "Choose another folder or change its permissions."
        )


def require_file(path: Path) -> None:
    """Raise if an output file cannot be written; nothing is created.

    Raises:
        OutputFolderError: it is a folder, or its own folder cannot be written to.
    """
    if path.is_dir():
        raise OutputFolderError(
            f"{path} is a folder, and cannot be a file of results: name a file, such as one in it."
        )
    require_writable(path.absolute().parent)
