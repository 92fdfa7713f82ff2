"""Exceptions for missing, corrupt and undownloadable data files."""

from pathlib import Path
from typing import Any

from felbo.errors import FelboError

__all__ = ["CorruptDataError", "DownloadError", "MissingDataError"]


class CorruptDataError(FelboError, ValueError):
    """A file exists but its content is not the published one.

    Args:
        source: The file.
        expected: What it should contain.
        came: What it contains.
        remedy: What the user should do; empty if the file is the caller's own.
    """

    def __init__(self, source: Path | str, *, expected: str, came: str, remedy: str = "") -> None:
        message = f"{source}: expected {expected}, but got {came}."
        super().__init__(f"{message} {remedy}".rstrip())

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors of worker processes are pickled; by default unpickling would call the constructor
        # with the message alone, without the required keyword arguments.
        return _with_message, self.args


def _with_message(message: str) -> CorruptDataError:
    return CorruptDataError.__new__(CorruptDataError, message)


class MissingDataError(FelboError, FileNotFoundError):
    """A file was not found on this machine and was not downloaded."""


class DownloadError(FelboError, OSError):
    """No mirror delivered the file; the message lists each mirror and its failure."""
