"""A folder of checkpoints: the last two, each whole or not there."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from torch import Tensor

from felbo._container import SavedFileError, read, write
from felbo._files import OutputFolderError, remove_parts, require_writable
from felbo._numbers import refuse_booleans
from felbo.errors import (
    CheckpointError,
    CheckpointWriteError,
    DamagedCheckpointWarning,
    SettingError,
)

PREFIX, SUFFIX, LOCK = "checkpoint-", ".safetensors", "lock"
KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a training is saved.

    Args:
        folder: of the checkpoints; made if it is not there. One training has one folder.
        seconds: save after a step when the last checkpoint is older than this.
        every_epoch: save after every epoch too, however young the last checkpoint is. Where epochs
            take milliseconds, as on small tables, writing would take longer than training.
    """

    folder: str | PathLike[str]
    seconds: float = 60.0
    every_epoch: bool = True

    def __post_init__(self) -> None:
        refuse_booleans(seconds=self.seconds)
        if not self.seconds >= 0:
            raise SettingError(f"seconds must be a number ≥ 0, got {self.seconds}.")


class CheckpointFolder:
    """Write and read the checkpoints of one training.

    Args:
        path: of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._number = 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Context manager: keep other processes out; released also when this one is killed.

        Raises:
            CheckpointError: if another training uses the folder.
        """
        # Imported lazily: most trainings have no checkpoints.
        from filelock import FileLock, Timeout

        require_writable(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / LOCK, timeout=0)
            lock.acquire()
        except Timeout as error:
            raise CheckpointError(
                f"Another training is writing its checkpoints to {self.path}. Wait for its end, or "
                "choose another folder."
            ) from error
        except OSError as error:
            raise OutputFolderError(f"{self.path} cannot hold checkpoints: {error}.") from error
        try:
            remove_parts(self.path)
            yield
        finally:
            lock.release()

    def files(self) -> list[Path]:
        """Return the checkpoints, oldest first."""
        found = [path for path in self.path.glob(f"{PREFIX}*{SUFFIX}") if _number(path) >= 0]
        return sorted(found, key=_number)

    def newest(self) -> tuple[Path, dict[str, Any], dict[str, Tensor]] | None:
        """Return the newest undamaged checkpoint, ``None`` if there was never one.

        A damaged one is reported by a :class:`felbo.errors.DamagedCheckpointWarning`.

        Raises:
            CheckpointError: if there are checkpoints, but all are damaged.
        """
        files = self.files()
        self._number = 1 + max(map(_number, files), default=-1)
        for found in self._undamaged():
            return found
        if files:
            raise CheckpointError(
                f"All checkpoints in {self.path} are damaged. Delete the folder to train from the "
                "beginning."
            )
        return None

    def numbers(self) -> list[int]:
        """Return the numbers of the undamaged checkpoints."""
        return [_number(path) for path, *_ in self._undamaged()]

    def take(self, number: int) -> tuple[Path, dict[str, Any], dict[str, Tensor]]:
        """Return the checkpoint of a number; the next one is written over those after it."""
        self._number = number + 1
        path = self._path(number)
        return (path, *read(path))

    def _undamaged(self) -> Iterator[tuple[Path, dict[str, Any], dict[str, Tensor]]]:
        """Yield the undamaged checkpoints, newest first, and report the others."""
        for path in reversed(self.files()):
            try:
                yield (path, *read(path))
            except (SavedFileError, OSError) as error:
                warnings.warn(
                    f"The checkpoint is left out: {error}", DamagedCheckpointWarning, stacklevel=2
                )

    def _path(self, number: int) -> Path:
        return self.path / f"{PREFIX}{number:08d}{SUFFIX}"

    def save(self, content: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
        """Write a checkpoint, then delete all but the last two.

        Raises:
            CheckpointWriteError: if it cannot be written; those before it are still there.
        """
        path = self._path(self._number)
        try:
            write(path, content, tensors, sync=True)
        except OSError as error:
            last = self.files()[-1:]
            kept = f"The last good one is {last[0]}" if last else "There is none before it"
            raise CheckpointWriteError(
                f"The checkpoint {path} could not be written: {error.strerror or error}. {kept}; "
                "make room, or choose another folder, and start again to go on from there."
            ) from error
        self._number += 1
        for old in self.files()[:-KEPT]:
            old.unlink(missing_ok=True)
        return path


def as_checkpoint(given: str | PathLike[str] | Checkpoint) -> Checkpoint:
    """Return the settings for a folder; settings are returned unchanged."""
    return given if isinstance(given, Checkpoint) else Checkpoint(given)


def _number(path: Path) -> int:
    digits = path.name.removeprefix(PREFIX).removesuffix(SUFFIX)
    return int(digits) if digits.isascii() and digits.isdigit() else -1
