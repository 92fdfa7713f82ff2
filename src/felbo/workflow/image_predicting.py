"""Predict images of a folder or a data set, and evaluate a model on them."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from felbo.evaluation import Prediction, predict
from felbo.models import StochasticClassifier
from felbo.workflow.errors import InputError
from felbo.workflow.evaluating import evaluated
from felbo.workflow.folder import Run, StoredEvaluation
from felbo.workflow.image_inputs import channels, inputs
from felbo.workflow.images import ImageSource, LabelledImages, image_chunks
from felbo.workflow.sources import open_images

CHUNK = 512
# Images of noise that stand for inputs from elsewhere.
MOST_NOISE = 1000


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
        for names, images in image_chunks(path, run.preparation["size"], channels(run)):
            yield names, next(_predictions(run, model, images))
        return
    found = _test(open_images(source, run.preparation["size"]), run)
    for start, prediction in enumerate(_predictions(run, model, found.images)):
        yield found.names[start * CHUNK : (start + 1) * CHUNK], prediction


def evaluate_images(
    name: str,
    run: Run,
    model: StochasticClassifier,
    source: str,
    ood: dict[str, str],
    limit: int | None,
    note: Callable[[str], None],
) -> StoredEvaluation:
    """Evaluate a model on a folder or data set, and on others from elsewhere.

    Args:
        name: of the evaluation.
        run: description of the training.
        model: what was trained.
        source: a folder with one folder of images per class, or a data set.
        ood: folders or data sets from elsewhere, by name.
        limit: use so many images of each at most.
        note: is told what a user should know about the images.
    """
    opened = open_images(source, run.preparation["size"])
    classes = opened.classes()
    strange = sorted(set(classes) - set(run.classes))
    if strange:
        raise InputError(
            f"{source}: the classes {strange[:10]} were not there in training, which had "
            f"{run.classes[:10]}."
        )
    for text in opened.notes():
        note(text)
    test = _test(opened, run).limited(limit)
    order = torch.tensor([run.classes.index(label) for label in classes])
    test = test._replace(labels=order[test.labels])
    elsewhere = {key: _foreign(run, path, limit) for key, path in ood.items()}
    return evaluate_labelled(name, run, model, test, elsewhere)


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


def _test(source: ImageSource, run: Run) -> LabelledImages:
    test = source.held_out()
    found = source.read(channels(run)) if test is None else test
    expected = [channels(run), run.preparation["size"], run.preparation["size"]]
    if list(found.images.shape[1:]) != expected:
        raise InputError(
            f"{source.name} has images {list(found.images.shape[1:])} and the model takes "
            f"{expected} (channels, height, width)."
        )
    return found


def _foreign(run: Run, source: str, limit: int | None) -> Tensor:
    path = Path(source)
    if path.is_dir():
        chunks = image_chunks(path, run.preparation["size"], channels(run))
        images = torch.cat([images for _, images in chunks])
        return images if limit is None else images[:limit]
    return _test(open_images(source, run.preparation["size"]), run).limited(limit).images


def _predictions(run: Run, model: nn.Module, images: Tensor) -> Iterator[Prediction]:
    for start in range(0, len(images), CHUNK):
        yield predict(
            model,
            inputs(images[start : start + CHUNK], run.preparation),
            num_data=run.num_data,
            seed=run.settings["seed"],
        )


def _noise(images: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = images[:MOST_NOISE].shape
    return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)


def _png(image: Tensor) -> str:
    """Return an image ``[C, H, W]`` of bytes as a PNG file in base 64."""
    from PIL import Image

    pixels = image.permute(1, 2, 0).numpy()
    packed = io.BytesIO()
    Image.fromarray(pixels.squeeze(-1) if len(image) == 1 else pixels).save(packed, format="PNG")
    return base64.b64encode(packed.getvalue()).decode()
