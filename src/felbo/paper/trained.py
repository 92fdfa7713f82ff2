"""Trained weights, kept so that several studies and later evaluations share one training."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from felbo._files import write_atomically
from felbo.models import StochasticClassifier
from felbo.paper.fingerprint import fingerprint
from felbo.training.devices import best_device

_folder: ContextVar[Path] = ContextVar("_folder", default=Path("runs"))


@contextmanager
def keeping_weights_in(folder: Path) -> Iterator[None]:
    """Let :func:`trained` keep its files in a folder."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def trained(
    name: str,
    settings: Mapping[str, Any],
    build: Callable[[], StochasticClassifier],
    train: Callable[[StochasticClassifier, Path], None],
) -> StochasticClassifier:
    """Return a model trained with these settings: read from its file, or trained now and kept.

    A file that is damaged, or was made with other settings or by other code of the study, is
    replaced.

    Args:
        name: of the file, such as ``"cifar10/map-fvi-0"``.
        settings: all that the weights depend on; plain numbers, strings and lists.
        build: makes the untrained model.
        train: trains it in place; its second argument is a folder for the checkpoints of an
            interrupted training, which is deleted when the weights are kept.
    """
    path = _folder.get() / "trained" / f"{name}.safetensors"
    code = {"build": fingerprint(build), "train": fingerprint(train)}
    stamp = json.dumps({**settings, "code": code}, sort_keys=True)
    model = build()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two cells that need the same weights: the second process waits for the first one's.
    with FileLock(path.with_suffix(".lock")):
        if _stamp_of(path) != stamp:
            _train_and_keep(model, train, path, stamp)
            return model
    model.load_state_dict(load_file(path))
    best_device().to_device(model)  # where training would have left it
    return model


def _train_and_keep(
    model: StochasticClassifier,
    train: Callable[[StochasticClassifier, Path], None],
    path: Path,
    stamp: str,
) -> None:
    # The folder has the stamp in its name: checkpoints of other settings or code do not fit.
    own = hashlib.sha256(stamp.encode()).hexdigest()[:8]
    checkpoints = path.with_name(f"{path.stem}-{own}")
    train(model, checkpoints)
    state = {key: value.contiguous() for key, value in model.state_dict().items()}
    write_atomically(path, save(state, metadata={"settings": stamp}))
    shutil.rmtree(checkpoints, ignore_errors=True)


def _stamp_of(path: Path) -> str | None:
    try:
        with safe_open(path, framework="pt") as file:
            found: str | None = (file.metadata() or {}).get("settings")
            return found
    except (OSError, SafetensorError):
        return None
