"""Output files: written in one move, into folders that were checked beforehand."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

# The ending of a file that is still being written.
PART = ".part"
ATTEMPTS = 3


class OutputFolderError(OSError):
    """A folder for results that cannot be written to, or cannot be made."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file beside its place and rename it: a reader finds the old file or all of the new.

    Folders are made where needed. Text is written as UTF-8, line ends as they are.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, ATTEMPTS + 1):
        part = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{PART}")
        try:
            with part.open("xb") as file:
                file.write(data)
            part.replace(path)
            return
        except FileNotFoundError:
            # Another process that started just now took it for a left-over, see remove_parts.
            if attempt == ATTEMPTS:
                raise
        finally:
            part.unlink(missing_ok=True)


def remove_parts(folder: Path, stem: str = "") -> None:
    """Delete what :func:`write_atomically` left behind where a process was killed.

    Args:
        folder: where to look; need not exist.
        stem: how the names of the files begin.
    """
    for part in folder.glob(f"{stem}*{PART}"):
        try:
            part.unlink(missing_ok=True)
        except PermissionError:  # on Windows: a file that is being written at this moment
            continue


def require_writable(folder: Path) -> None:
    """Refuse an output folder that cannot be written to or made, without making it.

    Raises:
        OutputFolderError: a file is in the way, or there is no permission.
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
