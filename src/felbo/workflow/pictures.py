"""Train, evaluate and predict on images."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from felbo.data import normalize
from felbo.estimator.building import MODELS
from felbo.evaluation import Prediction, predict
from felbo.models import StochasticClassifier
from felbo.networks import compact, mlp, resnet18
from felbo.objectives import FunctionSpaceELBO
from felbo.priors import UniformPrior
from felbo.random import torch_seed
from felbo.saving import save
from felbo.training import fit
from felbo.workflow.errors import InputError
from felbo.workflow.evaluating import evaluated
from felbo.workflow.folder import (
    CHECKPOINTS,
    HELD_OUT,
    MODEL,
    Run,
    StoredEvaluation,
    remove_checkpoints,
)
from felbo.workflow.images import ImageSource, LabelledImages, image_chunks
from felbo.workflow.sources import open_images
from felbo.workflow.targets import split_rows

CHUNK = 512


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
    test_fraction: float,
    limit: int | None,
    seed: int,
    progress: bool,
) -> Run:
    """Train a model on images, and write it with its evaluation to a folder.

    The arguments are those of ``felbo train``.
    """
    started = time.monotonic()
    classes = source.classes()
    training, test = _split(source, test_fraction, limit, seed)
    shape = training.images.shape[1:]
    prepared = _preparation(training.images)
    with torch_seed(seed):
        make = _factory(network, shape, hidden, len(classes))
        built = MODELS[model](make, members)
    objective = FunctionSpaceELBO.everywhere(
        UniformPrior(len(classes)),
        num_data=len(training.labels),
        strength=strength,
        data_strength=data_strength,
    )
    history = fit(
        built,
        objective,
        (_inputs(training.images, prepared), training.labels),
        epochs=epochs,
        batch_size=min(batch_size, len(training.labels)),
        learning_rate=learning_rate,
        seed=seed,
        progress=progress,
        checkpoint=folder / CHECKPOINTS,
    )
    run = Run(
        kind="images",
        source=source.name,
        classes=classes,
        num_data=len(training.labels),
        preparation=prepared,
        history={"loss": history.total, "nll": history.nll},
        settings={
            "seed": seed,
            "model": model,
            "network": network,
            "members": members,
            "epochs": epochs,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "strength": strength,
            "data_strength": data_strength,
        },
    )
    save(built.cpu(), folder / MODEL)
    if len(test.labels):
        evaluate_labelled(HELD_OUT, run, built, test, {}).write(folder)
    run.seconds = time.monotonic() - started
    run.write(folder)
    remove_checkpoints(folder)
    return run


def evaluate_labelled(
    name: str,
    run: Run,
    model: StochasticClassifier,
    test: LabelledImages,
    ood: dict[str, Tensor],
) -> StoredEvaluation:
    """Evaluate a model on labelled images and on images from elsewhere, by default noise."""
    elsewhere = ood or {"noise": _noise(test.images, run.settings["seed"])}
    return evaluated(
        name,
        _predictions(run, model, test.images),
        test.labels,
        {key: _predictions(run, model, images) for key, images in elsewhere.items()},
        lambda place: {"file": test.names[place], "picture": _png(test.images[place])},
        run.settings["seed"],
    )


def evaluate_images(
    name: str,
    run: Run,
    model: StochasticClassifier,
    source: str,
    ood: dict[str, str],
    limit: int | None,
) -> StoredEvaluation:
    """Evaluate a model on a folder or data set, and on others from elsewhere."""
    opened = open_images(source, run.preparation["size"])
    classes = opened.classes()
    strange = sorted(set(classes) - set(run.classes))
    if strange:
        raise InputError(
            f"{source}: the classes {strange[:10]} were not there in training, which had "
            f"{run.classes[:10]}."
        )
    test = _limited(_test(opened, run), limit)
    order = torch.tensor([run.classes.index(label) for label in classes])
    test = test._replace(labels=order[test.labels])
    return evaluate_labelled(
        name, run, model, test, {key: _foreign(run, path, limit) for key, path in ood.items()}
    )


def predict_images(
    run: Run, model: StochasticClassifier, source: str
) -> Iterator[tuple[list[str], Prediction]]:
    """Yield names of images with their predictions, some at a time.

    Args:
        run: description of the training.
        model: what was trained.
        source: a folder of images, at any depth, or a data set, of which the test split is taken.
    """
    path = Path(source)
    if path.is_dir():
        for names, images in image_chunks(path, run.preparation["size"], _channels(run)):
            yield names, next(_predictions(run, model, images))
        return
    opened = open_images(source, run.preparation["size"])
    found = _test(opened, run)
    for start, prediction in enumerate(_predictions(run, model, found.images)):
        yield found.names[start * CHUNK : (start + 1) * CHUNK], prediction


def _split(
    source: ImageSource, fraction: float, limit: int | None, seed: int
) -> tuple[LabelledImages, LabelledImages]:
    """Return images to train on and to hold out; the publisher's test split where there is one."""
    found = source.read()
    test = source.held_out()
    if test is not None:
        return _limited(found, limit), _limited(test, limit)
    kept, held_out = split_rows(found.labels.numpy(), fraction, seed)
    return _limited(found.take(kept), limit), found.take(held_out)


def _limited(found: LabelledImages, limit: int | None) -> LabelledImages:
    """Return as many images at most, spread over the whole."""
    if limit is None or limit >= len(found.labels):
        return found
    return found.take(torch.linspace(0, len(found.labels) - 1, limit).round().long())


def _test(source: ImageSource, run: Run) -> LabelledImages:
    test = source.held_out()
    found = source.read(_channels(run)) if test is None else test
    expected = [_channels(run), run.preparation["size"], run.preparation["size"]]
    if list(found.images.shape[1:]) != expected:
        raise InputError(
            f"{source.name} has images {list(found.images.shape[1:])} and the model takes "
            f"{expected} (channels, height, width)."
        )
    return found


def _foreign(run: Run, source: str, limit: int | None) -> Tensor:
    path = Path(source)
    if path.is_dir():
        chunks = image_chunks(path, run.preparation["size"], _channels(run))
        images = torch.cat([images for _, images in chunks])
        return images if limit is None else images[:limit]
    opened = open_images(source, run.preparation["size"])
    return _limited(_test(opened, run), limit).images


def _predictions(run: Run, model: nn.Module, images: Tensor) -> Iterator[Prediction]:
    for start in range(0, len(images), CHUNK):
        part = images[start : start + CHUNK]
        yield predict(
            model,
            _inputs(part, run.preparation),
            num_data=run.num_data,
            seed=run.settings["seed"],
            batch_size=CHUNK,
        )


def _preparation(images: Tensor) -> dict[str, Any]:
    """Return size, and mean and deviation of the pixels of each channel."""
    pixels = images.float().div(255.0)
    deviation = pixels.std((0, 2, 3)).clamp(min=1e-3)
    return {
        "size": images.shape[-1],
        "mean": pixels.mean((0, 2, 3)).tolist(),
        "std": deviation.tolist(),
    }


def _inputs(images: Tensor, prepared: dict[str, Any]) -> Tensor:
    return normalize(images, prepared["mean"], prepared["std"])


def _channels(run: Run) -> int:
    return len(run.preparation["mean"])


def _factory(
    network: str, shape: torch.Size, hidden: tuple[int, ...], classes: int
) -> Callable[[], nn.Module]:
    channels = shape[0]
    if network == "mlp":
        return lambda: mlp(shape.numel(), hidden, classes)
    make = compact if network == "compact" else resnet18
    return lambda: make(classes, channels=channels)


def _noise(images: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    few = images[:1000]
    return torch.randint(0, 256, few.shape, generator=generator, dtype=torch.uint8)


def _png(image: Tensor) -> str:
    """Return an image ``[C, H, W]`` of bytes as a PNG file in base 64."""
    from PIL import Image

    pixels = image.permute(1, 2, 0).numpy()
    packed = io.BytesIO()
    Image.fromarray(pixels.squeeze(-1) if len(image) == 1 else pixels).save(packed, format="PNG")
    return base64.b64encode(packed.getvalue()).decode()
