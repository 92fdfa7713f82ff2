"""Trained ResNets on CIFAR-10: what a few hundred steps of fine-tuning cost and buy.

The networks are those of https://github.com/akamaster/pytorch_resnet_cifar10, which the user keeps
in the folder that the environment variable ``FELBO_TRAINED`` names. Every way of fine-tuning takes
the same images, steps and rates. Sets and strengths were fixed on other data.
Temperature scaling gets the last 1,000 test images with their labels, which no other way sees and
no number is measured on; training images would not do, since the networks know them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import felbo
from felbo.data.augmentation import random_crop_flip
from felbo.evaluation import detection
from felbo.objectives.everywhere import DATA_STRENGTH, STRENGTH
from felbo.paper.results import Observation, Summary
from felbo.paper.study import Claim, Preset, Study
from felbo.paper.trained import trained
from felbo.report import draw_curves
from felbo.report.style import PALETTE

ENVIRONMENT_VARIABLE = "FELBO_TRAINED"
# Of ImageNet, with which the authors of the networks normalised CIFAR-10.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
METRICS = ("accuracy", "log_likelihood", "ece")
DEPTHS = {"ResNet-20": (20,), "Ensemble": (20, 32, 44, 56)}
# Ways to go on from a trained network, with their costs.
WAYS = {"": 0.4, "temperature": 0.5, "further training": 1.0, "fVI": 1.0, "everywhere": 2.0}
LINES = {"": ":", "temperature": (0, (1, 3)), "further training": "-.", "fVI": "--"}
NEAR, FAR = ("cifar100",), ("mnist", "fashion-mnist", "noise")


def network_file(depth: int) -> Path:
    """Return the file of a trained network."""
    folder = os.environ.get(ENVIRONMENT_VARIABLE, "")
    found = sorted(Path(folder).glob(f"resnet{depth}-*.th")) if folder else []
    if not found:
        raise FileNotFoundError(
            f"No file resnet{depth}-*.th in {folder or 'a folder'}: set {ENVIRONMENT_VARIABLE} to "
            "the folder with the networks of github.com/akamaster/pytorch_resnet_cifar10."
        )
    return found[0]


def ready(kind: str) -> felbo.StochasticClassifier:
    """Return the trained networks as they are."""
    networks = [felbo.networks.load_resnet_cifar(network_file(depth)) for depth in DEPTHS[kind]]
    if len(networks) == 1:
        return felbo.MAP(networks[0])
    return felbo.Ensemble.from_networks(networks)


def prepared(images: Tensor) -> Tensor:
    """Return bytes ``[N, C, H, W]`` as the networks take them, ``[N, 3, 32, 32]``."""
    if images.shape[1] == 1:
        images = F.pad(images, (2, 2, 2, 2)).expand(-1, 3, -1, -1)
    return felbo.data.normalize(images, MEAN, STD).contiguous(memory_format=torch.channels_last)


@lru_cache(maxsize=1)
def training_data(size: int) -> tuple[Tensor, Tensor]:
    """Return the first ``size`` training images and their labels."""
    found = felbo.data.load("cifar10", "train")
    return prepared(found.images[:size]), found.labels[:size]


def others(name: str, size: int) -> Tensor:
    """Return ``size`` images that show none of the ten classes."""
    if name == "noise":
        generator = torch.Generator().manual_seed(0)
        return prepared(torch.randint(256, (size, 3, 32, 32), generator=generator).byte())
    return prepared(felbo.data.load(name, "test").images[:size])


def tuned_model(
    name: str, kind: str, seed: int, settings: Mapping[str, Any]
) -> felbo.StochasticClassifier:
    """Return the model of a row, e.g. ``"Ensemble everywhere"``, from its file if it was kept."""
    model, way = ready(kind), name.removeprefix(kind).strip()
    if not way:
        return model
    if way == "temperature":
        held_out = felbo.data.load("cifar10", "test")
        x, y = prepared(held_out.images[-1000:]), held_out.labels[-1000:]
        return felbo.calibrate(model, (x, y), batch_size=500)
    own = {key: settings[key] for key in ("train_size", "epochs", "strength", "data_strength")}
    slug = name.lower().replace(" ", "-")
    return trained(
        f"finetune-cifar10/{slug}-{own['train_size']}-{seed}",
        {**own, "name": name, "seed": seed},
        lambda: model,
        partial(tune, way=way, seed=seed, settings=settings),
    )


def tune(
    model: felbo.StochasticClassifier, *, way: str, seed: int, settings: Mapping[str, Any]
) -> None:
    """Fine-tune a model, leaving the new weights in it."""
    data = training_data(settings["train_size"])
    prior = felbo.UniformPrior(10)
    objectives: dict[str, felbo.Objective] = {
        "further training": felbo.NegativeLogLikelihood(),
        "fVI": felbo.FunctionSpaceELBO(prior, num_data=len(data[0])),
        "everywhere": felbo.FunctionSpaceELBO.everywhere(
            prior, len(data[0]), settings["strength"], settings["data_strength"]
        ),
    }
    tuned = felbo.finetune(
        model,
        data,
        objectives[way],
        epochs=settings["epochs"],
        augment=random_crop_flip,
        seed=seed,
        progress=False,
    )
    model.load_state_dict(tuned.state_dict())


def run(name: str, seed: int, settings: Mapping[str, Any]) -> list[Observation]:
    """Measure one row: clean, corrupted, turned by 90°, and on images of other classes."""
    kind = next(kind for kind in DEPTHS if name.startswith(kind))
    model = tuned_model(name, kind, seed, settings)
    predict = partial(felbo.predict, model, batch_size=500, seed=seed)
    size = settings["clean_size"]
    test = felbo.data.load("cifar10", "test")
    x, y = prepared(test.images[:size]), test.labels[:size]
    clean = predict(x)
    observations = _scores(felbo.score(clean, y), 0.0)
    for severity in settings["severities"]:
        found = []
        for corruption in settings["corruptions"]:
            data = felbo.data.corrupted(
                "cifar10", corruption, severity, limit=settings["test_size"]
            )
            found.append(felbo.score(predict(prepared(data.images)), data.labels))
        means = [fmean(values) for values in zip(*found, strict=True)]
        observations += _scores(felbo.Scores(*means), float(severity))
    turned = felbo.score(predict(x.rot90(1, (-2, -1))), y)
    observations += [Observation(f"turned_{m}", 90.0, getattr(turned, m)) for m in METRICS]
    for other in (*NEAR, *FAR):
        outside = predict(others(other, size))
        detected = detection(clean.total, outside.total).auroc
        observations.append(Observation(f"auroc_{other}", 0.0, detected))
    return observations


def _scores(scores: felbo.Scores, shift: float) -> list[Observation]:
    return [Observation(metric, shift, getattr(scores, metric)) for metric in METRICS]


def claims(summaries: Sequence[Summary]) -> list[Claim]:
    """Check what fine-tuning with a prior everywhere should do for each kind of model."""
    value = {(s.metric, s.model, s.shift): s.mean for s in summaries}
    severities = sorted({s.shift for s in summaries if s.metric == "ece" and s.shift >= 3})
    found = []

    def late(name: str) -> float:
        return fmean(value["log_likelihood", name, s] for s in severities)

    for kind in DEPTHS:
        ours, cooled = f"{kind} everywhere", f"{kind} temperature"
        if not severities or not all(("ece", n, 0.0) in value for n in (ours, kind, cooled)):
            continue
        lost = value["accuracy", kind, 0.0] - value["accuracy", ours, 0.0]
        found.append(Claim(f"{kind}: accuracy within 0.5 points ({lost:+.2f} lost)", lost <= 0.5))
        clean = {n: value["log_likelihood", n, 0.0] for n in (ours, kind, cooled)}
        text = f"{kind}: clean log-likelihood {clean[ours]:.3f}, its own {clean[kind]:.3f}"
        found.append(Claim(text, clean[ours] > clean[kind]))
        text = f"{kind}: clean, after temperature scaling {clean[cooled]:.3f}, less 0.01"
        found.append(Claim(text, clean[ours] > clean[cooled] - 0.01))
        gain = late(ours) - late(kind)
        text = f"{kind}: corrupted log-likelihood better by 1 nat ({gain:+.2f})"
        found.append(Claim(text, gain >= 1.0))
        gain = late(ours) - late(cooled)
        text = f"{kind}: corrupted, better than after temperature scaling ({gain:+.2f})"
        found.append(Claim(text, gain > 0.0))
        # Noise is among the points that "everywhere" is trained with, so it is no unknown shift.
        unseen = ("far, without noise", FAR[:-1], 0.03)
        for where, names, least in (("near", NEAR, 0.01), ("far", FAR, 0.03), unseen):
            gains = [value[f"auroc_{n}", ours, 0.0] - value[f"auroc_{n}", kind, 0.0] for n in names]
            text = f"{kind}: {where} AUROC better by {100 * least:g} points"
            found.append(Claim(f"{text} ({100 * fmean(gains):+.1f})", fmean(gains) >= least))
    return found


def styles(models: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Give each kind of model a colour, and each way a line style."""
    colours = dict(zip(DEPTHS, PALETTE, strict=False))
    return {
        name: {"color": colours[kind], "linestyle": LINES.get(name.removeprefix(kind).strip(), "-")}
        for name in models
        for kind in DEPTHS
        if name.startswith(kind)
    }


def draw(summaries: Sequence[Summary], stem: str) -> None:
    """Draw one panel per metric over the severity of corruptions."""
    draw_curves(
        [s for s in summaries if s.metric in METRICS],
        stem,
        metrics=METRICS,
        xlabel="severity of corruptions",
        title="Trained ResNets on CIFAR-10, before and after fine-tuning",
        styles=styles,
    )


_ALL: dict[str, Any] = {
    "corruptions": felbo.data.CORRUPTIONS,
    "train_size": 20_000,
    "epochs": 2,
    "strength": STRENGTH,
    "data_strength": DATA_STRENGTH,
}

STUDY = Study(
    name="finetune-cifar10",
    title="Fine-tuning on CIFAR-10",
    models={
        f"{kind} {way}".strip(): cost * factor
        for kind, factor in (("ResNet-20", 1.0), ("Ensemble", 8.0))
        for way, cost in WAYS.items()
    },
    presets={
        "smoke": Preset(
            1,
            {
                **_ALL,
                "corruptions": ("gaussian_noise", "fog"),
                "severities": (3,),
                "train_size": 256,
                "epochs": 1,
                "test_size": 50,
                "clean_size": 100,
            },
        ),
        "cpu": Preset(1, {**_ALL, "severities": (1, 3, 5), "test_size": 300, "clean_size": 2000}),
        "paper": Preset(
            3, {**_ALL, "severities": (1, 2, 3, 4, 5), "test_size": 9000, "clean_size": 9000}
        ),
    },
    run=run,
    draw=draw,
    claims=claims,
    data=("cifar10", "cifar100", "mnist", "fashion-mnist"),
)
