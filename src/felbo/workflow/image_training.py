"""Train a model on the images of a folder or a data set."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from felbo.estimator.building import MODELS
from felbo.models import StochasticClassifier
from felbo.networks import compact, mlp, resnet18
from felbo.objectives import FunctionSpaceELBO
from felbo.priors import UniformPrior
from felbo.random import torch_seed
from felbo.saving import save
from felbo.training import History, fit
from felbo.workflow.errors import InputError
from felbo.workflow.folder import CHECKPOINTS, HELD_OUT, MODEL, Run, remove_checkpoints
from felbo.workflow.image_inputs import inputs, preparation
from felbo.workflow.image_predicting import evaluate_labelled
from felbo.workflow.images import ImageSource, LabelledImages, NamedImages
from felbo.workflow.targets import split_rows

# The log-likelihood of fewer images says too little about when to stop.
FEWEST_HELD_OUT = 10


def train_images(
    source: ImageSource,
    folder: Path,
    *,
    model: str,
    network: str,
    hidden: tuple[int, ...],
    members: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    strength: float,
    data_strength: float,
    validation: float | None,
    patience: int,
    test_fraction: float,
    limit: int | None,
    seed: int,
    progress: bool,
) -> Run:
    """Train a model on images, and write it with its evaluation to a folder.

    The arguments are those of ``felbo train``; ``validation=None`` trains without early stopping.
    """
    started = time.monotonic()
    classes = _classes(source)
    training, test = _split(source, test_fraction, limit, seed)
    share, few = validation or 0.0, []
    if share * len(training.labels) < FEWEST_HELD_OUT:
        if share:
            few.append(
                "Too few images to hold some out for early stopping: trained for all "
                f"{epochs} epochs."
            )
        share = 0.0
    prepared = preparation(training.images)
    with torch_seed(seed):
        make = _factory(network, training.images.shape[1:], hidden, len(classes))
        built = MODELS[model](make, members)
    objective = FunctionSpaceELBO.everywhere(
        UniformPrior(len(classes)),
        num_data=round(len(training.labels) * (1.0 - share)),
        strength=strength,
        data_strength=data_strength,
    )
    history = fit(
        built,
        objective,
        (inputs(training.images, prepared), training.labels),
        epochs=epochs,
        batch_size=min(batch_size, len(training.labels)),
        learning_rate=learning_rate,
        validation=share or None,
        patience=patience if share else None,
        seed=seed,
        progress=progress,
        checkpoint=folder / CHECKPOINTS,
    )
    run = Run(
        kind="images",
        source=source.name,
        classes=classes,
        num_data=objective.num_data,
        preparation=prepared,
        history=_curves(history),
        notes=source.notes() + _absent(classes, training) + few,
        settings={
            "seed": seed,
            "model": model,
            "network": network,
            **({"hidden": hidden} if network == "mlp" else {}),
            "members": members,
            "epochs": epochs,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "strength": strength,
            "data_strength": data_strength,
            "validation": validation,
            "patience": patience,
            # A data set has a test split of its publisher.
            **({} if isinstance(source, NamedImages) else {"test_fraction": test_fraction}),
            "limit": limit,
        },
    )
    _write(run, built, test, folder, started)
    return run


def _classes(source: ImageSource) -> list[str]:
    found = source.classes()
    if len(found) < 2:
        raise InputError(
            f"{source.name} must hold a folder of images for each class, at least two to train; "
            f"found {', '.join(map(repr, found))} only. {' '.join(source.notes())}".rstrip()
        )
    return found


def _absent(classes: list[str], training: LabelledImages) -> list[str]:
    """Return a note on the classes of which a limit leaves no image to train on."""
    there = set(training.labels.tolist())
    absent = [name for label, name in enumerate(classes) if label not in there]
    if not absent:
        return []
    return [f"There was no image to train on of {', '.join(absent)}: --limit leaves too few."]


def _write(
    run: Run, model: StochasticClassifier, test: LabelledImages, folder: Path, started: float
) -> None:
    """Write model, evaluation and description; a finished run needs no checkpoints."""
    save(model.cpu(), folder / MODEL)
    if len(test.labels):
        evaluate_labelled(HELD_OUT, run, model, test, {}).write(folder)
    run.seconds = time.monotonic() - started
    run.write(folder)
    remove_checkpoints(folder)


def _curves(history: History) -> dict[str, list[float]]:
    curves = {"loss": history.total, "nll": history.nll}
    scores = [scores.nll for scores in history.validation]
    return curves | ({"validation nll": scores} if scores else {})


def _split(
    source: ImageSource, fraction: float, limit: int | None, seed: int
) -> tuple[LabelledImages, LabelledImages]:
    """Return images to train on and to hold out; the publisher's test split where there is one."""
    found = source.read()
    test = source.held_out()
    if test is not None:
        return found.limited(limit), test.limited(limit)
    kept, held_out = split_rows(found.labels.numpy(), fraction, seed)
    return found.take(kept).limited(limit), found.take(held_out)


def _factory(
    network: str, shape: torch.Size, hidden: tuple[int, ...], classes: int
) -> Callable[[], nn.Module]:
    channels = shape[0]
    if network == "mlp":
        return lambda: mlp(shape.numel(), hidden, classes)
    make = compact if network == "compact" else resnet18
    return lambda: make(classes, channels=channels)
