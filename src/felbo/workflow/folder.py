"""A run: a folder with a model, what it was trained on, and its evaluations."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from felbo._arrays import read_npz
from felbo._files import require_writable, write_atomically
from felbo.saving import load
from felbo.training.checkpoint import LOCK, PREFIX
from felbo.workflow.columns import Columns
from felbo.workflow.errors import InputError

FORMAT = 1
DESCRIPTION, MODEL, EVALUATIONS = "run.json", "model.safetensors", "evaluations"
REPORT = "report.html"
# The evaluation that a training writes, and nothing else.
HELD_OUT = "held-out"
# Pixels along the side of an image that a model takes.
LARGEST_IMAGE = 4096
REPLACE = "Choose another folder with --out, or replace it with --overwrite."
# Folder of the checkpoints of a training that is under way.
CHECKPOINTS = "checkpoints"


@dataclass
class Run:
    """What is known about a trained model.

    Attributes:
        kind: ``"table"`` or ``"images"``.
        source: file, folder or name of the data.
        classes: labels, in the order of the probabilities.
        num_data: rows or images that the model was trained on.
        settings: of the training.
        target: name of the column of labels.
        preparation: how images become inputs.
        history: values by epoch, such as ``loss``, and ``validation`` where rows were held out.
        seconds: that the training took.
        notes: what a reader of the results should know.
    """

    kind: str
    source: str
    classes: list[Any]
    num_data: int
    settings: dict[str, Any]
    target: str | None = None
    preparation: dict[str, Any] = field(default_factory=dict)
    history: dict[str, list[float]] = field(default_factory=dict)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write the description into the folder of the run, at the end of its training."""
        # With an evaluation on held-out data, those of the run before are gone already.
        if (folder / DESCRIPTION).exists():
            remove_results(folder)
        text = json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False)
        write_atomically(folder / DESCRIPTION, text)


def read_run(folder: Path) -> Run:
    """Return the description of a run."""
    path = folder / DESCRIPTION
    if not path.is_file():
        raise InputError(
            f"{folder} is no run: it has no {DESCRIPTION}. `felbo train` makes one, with --out."
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version = content.pop("format")
        if version > FORMAT:
            raise InputError(f"{path} was written by a newer felbo: upgrade felbo to read it.")
        run = Run(**content)
        _check(run)
        return run
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {error}. Train again.") from error


def _check(run: Run) -> None:
    """Raise unless a description has what a training writes.

    Raises:
        ValueError: says what is off.
    """
    seed = run.settings["seed"]
    good = {
        "kind": run.kind in ("table", "images"),
        "source": isinstance(run.source, str),
        "classes": all(isinstance(c, str | int | float) for c in run.classes) and len(run.classes),
        "num_data": isinstance(run.num_data, int) and run.num_data > 0,
        "target": isinstance(run.target, str) or run.kind == "images",
        "seed": isinstance(seed, int) and seed >= 0,
        "history": all(isinstance(values, list) for values in run.history.values()),
        "seconds": isinstance(run.seconds, int | float),
        "notes": all(isinstance(note, str) for note in run.notes),
        "preparation": run.kind == "table" or _is_preparation(**run.preparation),
    }
    bad = [name for name, fits in good.items() if not fits]
    if bad:
        raise ValueError(f"{', '.join(bad)} cannot be what a training wrote")


def _is_preparation(size: Any, mean: Any, std: Any) -> bool:
    numbers = all(isinstance(value, int | float) for value in (*mean, *std))
    sized = isinstance(size, int) and 1 <= size <= LARGEST_IMAGE
    return numbers and sized and len(mean) == len(std) and len(mean) in (1, 3)


def read_model(folder: Path) -> Any:
    """Return the model or classifier of a run."""
    return load(folder / MODEL)


class Start(Enum):
    """Where a training starts: at the beginning, at checkpoints, or not at all."""

    NEW, GOES_ON, FINISHED = range(3)


def prepare_folder(folder: Path, overwrite: bool, resume: bool = False) -> Start:
    """Raise if a run cannot be written to a folder; return where its training starts.

    Args:
        folder: of the run.
        overwrite: replace what is there, also a training that was interrupted.
        resume: go on with a training that was interrupted, and leave a run that is finished.
    """
    require_writable(folder)
    if overwrite and resume:
        raise InputError("--overwrite starts anew and --resume goes on: give one of them.")
    unfinished = bool(_checkpoints(folder))
    if unfinished and not overwrite and not resume:
        raise InputError(
            f"{folder} holds a training that was interrupted. Go on with --resume, or start anew "
            "with --overwrite."
        )
    if unfinished and overwrite:
        remove_checkpoints(folder)
    if overwrite and not (folder / DESCRIPTION).exists():
        remove_results(folder)  # left by a training that was killed before its description
    if unfinished and resume:
        # Perhaps with the description of another run, which it replaces.
        return Start.GOES_ON
    if not (folder / DESCRIPTION).exists() or overwrite:
        return Start.NEW
    if resume:
        return Start.FINISHED
    raise InputError(f"{folder} holds a run already. {REPLACE}")


def finished_run(folder: Path, source: str, target: str | None, settings: dict[str, Any]) -> Run:
    """Return a run that is finished; raise if it has another source, target or settings.

    Args:
        folder: of the run.
        source: of the data; what it holds is not compared.
        target: name of the column of labels.
        settings: of the training; those that a run does not keep are not compared.
    """
    run = read_run(folder)
    kept = {"source": run.source, "target": run.target, **run.settings}
    if run.kind == "images":
        kept["image_size"] = run.preparation["size"]
    asked = {"source": str(Path(source)), "target": target, **settings}
    # As a description is read: with lists in place of tuples.
    asked = json.loads(json.dumps({name: asked[name] for name in asked if name in kept}))
    other = [
        f"{name} was {kept[name]!r} and is {value!r}"
        for name, value in asked.items()
        if kept[name] != value
    ]
    if other:
        raise InputError(f"{folder} holds another run already: {', '.join(other)}. {REPLACE}")
    return run


def remove_results(folder: Path) -> None:
    """Delete what was said about a model: description, evaluations and report."""
    stored = (path for end in ("json", "npz") for path in (folder / EVALUATIONS).glob(f"*.{end}"))
    # The description first: without it, nothing else is read.
    for path in (folder / DESCRIPTION, *stored, folder / REPORT):
        path.unlink(missing_ok=True)


def remove_checkpoints(folder: Path) -> None:
    """Delete the checkpoints of a run, unless a training is writing them."""
    from filelock import FileLock, Timeout

    home = folder / CHECKPOINTS
    try:
        with FileLock(home / LOCK, timeout=0):
            for path in _checkpoints(folder):
                path.unlink(missing_ok=True)
    except Timeout as error:
        raise InputError(f"Another training is writing to {folder}: wait for its end.") from error
    for place in (*home.glob("*/"), home):
        (place / LOCK).unlink(missing_ok=True)
        with suppress(OSError):  # a folder that holds something else is not felbo's
            place.rmdir()


def _checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a run: of images in one folder, of a table in several."""
    home = folder / CHECKPOINTS
    return [*home.glob(f"{PREFIX}*"), *home.glob(f"*/{PREFIX}*")]


@dataclass(frozen=True)
class StoredEvaluation:
    """An evaluation of a run on labelled data.

    Attributes:
        name: of the evaluation.
        scores: what :func:`felbo.evaluate` measured.
        labels: position of the true class ``[n]``.
        test: columns of the predictions, see :mod:`felbo.workflow.columns`.
        ood: columns of the predictions elsewhere, by name.
        examples: rows or pictures worth looking at: ``row``, ``values`` or ``picture``.
    """

    name: str
    scores: dict[str, Any]
    labels: Any
    test: Columns
    ood: dict[str, Columns]
    examples: dict[str, list[dict[str, Any]]]

    def write(self, folder: Path) -> None:
        """Write two files into the folder of the run: one of JSON, one of arrays."""
        if self.name == HELD_OUT:  # of a model that has just replaced that of all the others
            remove_results(folder)
        arrays = {"labels": self.labels} | {f"test/{k}": v for k, v in self.test.items()}
        for place, (name, columns) in enumerate(self.ood.items()):
            arrays |= {f"ood{place}/{part}": values for part, values in columns.items()}
            arrays[f"ood{place}/name"] = np.array(name)
        packed = io.BytesIO()
        np.savez_compressed(packed, **arrays)
        stem = folder / EVALUATIONS / self.name
        text = json.dumps({"scores": self.scores, "examples": self.examples}, ensure_ascii=False)
        write_atomically(stem.with_suffix(".npz"), packed.getvalue())
        write_atomically(stem.with_suffix(".json"), text)


def evaluation_names(folder: Path) -> list[str]:
    """Return the names of a run's evaluations, that on held-out data first."""
    names = sorted(path.stem for path in (folder / EVALUATIONS).glob("*.json"))
    return sorted(names, key=lambda name: name != HELD_OUT)


def read_evaluation(folder: Path, name: str) -> StoredEvaluation:
    """Return an evaluation of a run."""
    there = evaluation_names(folder)
    if name not in there:
        raise InputError(
            f"The run {folder} has no evaluation {name!r}; it has {', '.join(there) or 'none'}. "
            "`felbo evaluate` makes one."
        )
    stem = folder / EVALUATIONS / name
    try:
        content = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
        found = read_npz(stem.with_suffix(".npz"))
        return StoredEvaluation(
            name=name,
            scores=content["scores"],
            labels=found["labels"],
            test=_part(found, "test/"),
            ood=_elsewhere(found),
            examples=content["examples"],
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"The evaluation {stem} is damaged: {error}. Evaluate again.") from error


def _part(arrays: dict[str, Any], prefix: str) -> Columns:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def _elsewhere(arrays: dict[str, Any]) -> dict[str, Columns]:
    found = {}
    for place in range(sum(key.endswith("/name") for key in arrays)):
        part = _part(arrays, f"ood{place}/")
        found[str(part.pop("name"))] = part
    return found
