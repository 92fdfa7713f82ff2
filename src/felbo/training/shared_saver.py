"""Checkpoints of several processes: each saves its own part, all at the same steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from felbo.errors import CheckpointError, ProcessError
from felbo.training.checkpoint import Checkpoint, CheckpointFolder
from felbo.training.processes import Processes
from felbo.training.resuming import PROCESS, RandomSources, Saver, TrainingState


class SharedSaver(Saver):
    """Save the part of one process, and go on from a step that all processes have saved.

    Weights may be divided among the processes, and each has random numbers of its own. So every
    process writes a checkpoint, to ``process-RANK`` in the folder of the training. After each step
    they agree on whether to save, with one message of two numbers. Killed while they save, some
    have one checkpoint more than others; since two are kept, all have the one before.

    Args:
        checkpoint: as in :class:`Saver`.
        settings: likewise.
        state: likewise.
        random: likewise.
        processes: of this training.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        settings: dict[str, Any],
        state: TrainingState,
        random: RandomSources,
        processes: Processes,
    ) -> None:
        self.processes = processes
        super().__init__(checkpoint, {**settings, "processes": processes.count}, state, random)

    def save(self) -> Path:
        """Write a checkpoint.

        Raises:
            ProcessError: if another process could not write its own.
        """
        error: Exception | None = None
        try:
            path = super().save()
        except Exception as found:
            error = found
        (failed,) = self._any(error is not None)
        if error is not None:
            raise error
        if failed:
            raise ProcessError(
                "Another process could not save its part of the training, and this one stops with "
                "it: see the message of that one. The checkpoints before are kept."
            )
        return path

    def _folder(self, path: Path) -> CheckpointFolder:
        if CheckpointFolder(path).files():
            raise CheckpointError(
                f"{path} holds the checkpoints of a training in one process, and this one has "
                f"{self.processes.count}. Start it in one, or use another folder."
            )
        return CheckpointFolder(path / f"{PROCESS}{self.processes.rank}")

    def _newest(self) -> tuple[Path, dict[str, Any], dict[str, Tensor]] | None:
        every = self.processes.gathered(self.folder.numbers())
        common = set.intersection(*map(set, every))
        if common:
            return self.folder.take(max(common))
        # Killed at the very first checkpoint, before a step was taken, some have written it.
        if max((number for numbers in every for number in numbers), default=0) == 0:
            return None
        raise CheckpointError(
            f"The {self.processes.count} processes of this training have no checkpoint in common "
            f"(their numbers: {every}). Start it in as many processes as before, each with its "
            "folder, or use another folder."
        )

    def _any(self, *flags: bool) -> list[bool]:
        return self.processes.any(*flags)
