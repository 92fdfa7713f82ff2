"""State of a training: capture and restore it, and save checkpoints while it runs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from felbo.errors import CheckpointError
from felbo.objectives import Objective
from felbo.random import RandomStream
from felbo.training.checkpoint import Checkpoint, CheckpointFolder
from felbo.training.divergence import check_weights
from felbo.training.fingerprint import check_settings_agree
from felbo.training.generators import (
    find_counters,
    find_generators,
    get_state,
    global_generators,
    numbers,
    set_state,
)
from felbo.training.history import Epoch, History, ValidationScores
from felbo.training.interrupts import Interrupts, TrainingInterrupted
from felbo.training.stopping import EarlyStopping
from felbo.training.trees import decode, encode

Batch = TypeVar("Batch")
# Each of several processes has a folder of this name, with its number, in the training's folder.
PROCESS = "process-"


class RandomSources:
    """All random generators that a training draws from.

    Args:
        stream: torch's default generators, as the steps see them.
        holders: objects that may hold generators of their own.
    """

    def __init__(self, stream: RandomStream, *holders: Any) -> None:
        self.stream = stream
        self.sources = global_generators() + find_generators(*holders)

    def get_states(self) -> dict[str, Any]:
        """Return where all generators stand."""
        return {
            "stream": self.stream.get_states(),
            "own": [get_state(source) for source in self.sources],
        }

    def set_states(self, states: dict[str, Any]) -> None:
        """Continue from what :meth:`get_states` returned."""
        if len(states["own"]) != len(self.sources):
            raise CheckpointError(
                f"The checkpoint holds {len(states['own'])} random generators and this training "
                f"has {len(self.sources)}: build data, objective and augmentation as before."
            )
        self.stream.set_states(states["stream"])
        for source, state in zip(self.sources, states["own"], strict=True):
            set_state(source, state)


@dataclass
class TrainingState:
    """The parts of a training that change from step to step.

    Attributes:
        history: the finished epochs.
        losses: ``[total, nll, kl]`` of each step of the current epoch.
        steps: of all epochs.
        rate: learning rate of the last step.
    """

    model: nn.Module
    optimizer: Optimizer
    scheduler: Any
    precision: Any
    objective: Objective
    stopping: EarlyStopping
    stream: RandomStream
    history: History = field(default_factory=History)
    losses: list[Tensor] = field(default_factory=list)
    steps: int = 0
    rate: float = 0.0

    def capture(self) -> dict[str, Any]:
        """Return everything but random generators, between two steps."""
        return {
            "model": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "precision": self.precision.state_dict(),
            "stopping": self.stopping.get_state(),
            "counters": [numbers(part) for part in find_counters(self.objective)],
            "steps": self.steps,
            "rate": self.rate,
            "epochs": [asdict(epoch) for epoch in self.history.epochs],
            "losses": torch.stack(self.losses) if self.losses else None,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`capture` returned."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.precision.load_state_dict(state["precision"])
        self.stopping.set_state(state["stopping"])
        self.steps, self.rate = state["steps"], state["rate"]
        for part, values in zip(find_counters(self.objective), state["counters"], strict=True):
            vars(part).update(values)
        self.history.epochs[:] = [_epoch(**values) for values in state["epochs"]]
        self.losses[:] = [] if state["losses"] is None else list(state["losses"])


class Saver:
    """Save a training as it goes, and start it where it was saved last.

    Args:
        checkpoint: where and how often.
        settings: what a checkpoint must agree in to be taken.
        state: what is saved.
        random: likewise.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        settings: dict[str, Any],
        state: TrainingState,
        random: RandomSources,
    ) -> None:
        self.folder = self._folder(Path(checkpoint.folder))
        self.seconds, self.every_epoch = checkpoint.seconds, checkpoint.every_epoch
        self.settings, self.state, self.random = settings, state, random
        self.interrupts = Interrupts()
        # Where the generators stood before the first batch of the epoch was drawn.
        self._random_at_start: dict[str, Any] | None = None
        self._saved_at = 0.0

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Context manager: lock the folder and take up the training that is in it."""
        with self.folder.locked():
            found = self._newest()
            if found is None:
                self.save()  # so that a folder without room is found before anything is computed
            else:
                self._take(*found)
            self._saved_at = time.monotonic()
            yield
            if self.interrupts.received is not None:  # while the end was saved
                raise self._interrupted(self.folder.files()[-1])

    def _folder(self, path: Path) -> CheckpointFolder:
        """Return the folder that this process writes to."""
        if parts := sorted(path.glob(f"{PROCESS}[0-9]*")):
            raise CheckpointError(
                f"{path} holds the checkpoints of a training in {len(parts)} processes, and this "
                "one has a single process. Start it in as many, or use another folder."
            )
        return CheckpointFolder(path)

    def _newest(self) -> tuple[Path, dict[str, Any], dict[str, Tensor]] | None:
        """Return the checkpoint to go on from; ``None`` if there was never one."""
        return self.folder.newest()

    def _any(self, *flags: bool) -> list[bool]:
        """Return each flag as the processes of this training agree on it."""
        return list(flags)

    def _take(self, path: Path, content: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        settings = content.get("settings")
        if content.get("what") != "training" or not isinstance(settings, dict):
            raise CheckpointError(f"{path} is no checkpoint of a training.")
        check_settings_agree(settings, self.settings, path)
        if content.get("torch") != torch.__version__:
            warnings.warn(
                f"{path} was written with torch {content.get('torch')} and this is "
                f"{torch.__version__}: the weights may differ from those of one training.",
                stacklevel=2,
            )
        try:
            found = decode(content["state"], tensors)
            self.state.restore(found["training"])
            self.random.set_states(found["random"])
            self._random_at_start = found["random_at_start"]
        except CheckpointError:
            raise
        except Exception as error:  # of the optimiser, the scheduler, a generator
            raise CheckpointError(
                f"{path} does not fit this training: {error!r}. Use another folder."
            ) from error

    def remaining(self, batches: Iterable[Batch], accumulate: int) -> Iterator[Batch]:
        """Return an iterator over the batches of an epoch that have not been trained on yet.

        In the middle of an epoch the batches are drawn again, as at its start, and those that were
        trained on are left out.

        Args:
            batches: of a whole epoch.
            accumulate: batches per step.
        """
        if not self.state.losses:
            self._random_at_start = self.random.get_states()
            return iter(batches)
        now = self.random.get_states()
        assert self._random_at_start is not None
        self.random.set_states(self._random_at_start)
        iterator = iter(batches)
        for _ in islice(iterator, accumulate * len(self.state.losses)):
            pass
        self.random.set_states(now)
        return iterator

    def save(self) -> Path:
        """Write a checkpoint.

        Raises:
            DivergedError: if weights are not finite; the checkpoints before are kept.
        """
        check_weights(self.state.model)
        everything = {
            "training": self.state.capture(),
            "random": self.random.get_states(),
            "random_at_start": self._random_at_start,
        }
        tensors: dict[str, Tensor] = {}
        content = {
            "what": "training",
            "torch": torch.__version__,
            "settings": self.settings,
            "state": encode(everything, tensors, "state"),
        }
        path = self.folder.save(content, tensors)
        self._saved_at = time.monotonic()
        return path

    def after_step(self) -> None:
        """Save if the last checkpoint is old or a signal came.

        Raises:
            TrainingInterrupted: for SIGINT or SIGTERM.
        """
        old = time.monotonic() - self._saved_at >= self.seconds
        interrupted, due = self._any(self.interrupts.received is not None, old)
        if interrupted:
            raise self._interrupted(self.save())
        if due:
            self.save()

    def after_epoch(self, last: bool) -> None:
        """As after a step, but save younger checkpoints too where that was asked for.

        Args:
            last: if the training ends here; its end is saved in any case.
        """
        if last or self.every_epoch:
            path = self.save()
            (interrupted,) = self._any(self.interrupts.received is not None)
            if interrupted:
                raise self._interrupted(path)
        else:
            self.after_step()

    def _interrupted(self, path: Path) -> TrainingInterrupted:
        signal = self.interrupts.received
        cause = "A signal to another process" if signal is None else signal.name
        epochs, steps = len(self.state.history), len(self.state.losses)
        return TrainingInterrupted(
            f"{cause}: the training was saved to {path} after "
            f"{epochs} epochs and {steps} steps. Start it again in the same way to go on.",
            path,
        )


def _epoch(validation: Any, **values: Any) -> Epoch:
    scores = None if validation is None else ValidationScores(*validation)
    return Epoch(validation=scores, **values)
