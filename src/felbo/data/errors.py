"""What can go wrong with a data file, each with the way out in its message."""

from pathlib import Path
from typing import Any

__all__ = ["CorruptDataError", "DownloadError", "MissingDataError"]


class CorruptDataError(ValueError):
    """A file is there but is not what its publisher put out.

    Args:
        source: The file.
        expected: What it should hold.
        came: What it holds.
        remedy: What to do about it; left out where the file is the caller's own.
    """

    def __init__(self, source: Path | str, *, expected: str, came: str, remedy: str = "") -> None:
        message = f"{source}: expected {expected}, but got {came}."
        super().__init__(f"{message} {remedy}".rstrip())

    def __reduce__(self) -> tuple[Any, ...]:
        # An error of a worker process is pickled on its way to the caller; by default it would be
        # made anew from its message alone, without the keyword arguments.
        return _with_message, self.args


def _with_message(message: str) -> CorruptDataError:
    return CorruptDataError.__new__(CorruptDataError, message)


class MissingDataError(FileNotFoundError):
    """A file is neither on this machine nor to be had from any of its mirrors."""


class DownloadError(OSError):
    """No mirror delivered the file; the message names each one and what it answered."""
