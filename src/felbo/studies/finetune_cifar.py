"""Trained ResNets on CIFAR-10: what a few hundred steps of fine-tuning cost and buy.

The networks are those of https://github.com/akamaster/pytorch_resnet_cifar10, which the user keeps
in the folder that the environment variable ``FELBO_TRAINED`` names. Every way of fine-tuning takes
the same images, steps and rates. Sets and strengths were fixed on other data. With the preset
``cpu`` the ensemble is smaller, trains in bfloat16 and is measured on fewer images, the
same for all of its rows, so that a row takes minutes of one core.
Temperature scaling gets the last 1,000 test images with their labels, which no other way sees and
no number is measured on; training images would not do, since the networks know them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

import felbo
from felbo.evaluation import detection
from felbo.objectives.everywhere import DATA_STRENGTH, STRENGTH
from felbo.paper.results import Observation, Summary
from felbo.paper.study import Claim, Preset, Study
from felbo.report import draw_curves
from felbo.report.curves import by_kind_and_way
from felbo.report.style import PALETTE
from felbo.studies.rivals import energy
from felbo.studies.tuned_resnets import KINDS, prepared, tuned_model

METRICS = ("accuracy", "log_likelihood", "ece")
# Ways to go on from a trained network, with their costs.
WAYS = {
    "": 0.4,
    "temperature": 0.5,
    "further training": 1.0,
    "label smoothing": 1.0,
    "LogitNorm": 1.0,
    "Laplace": 2.0,
    "outlier exposure": 2.0,
    "fVI": 1.0,
    "everywhere": 2.0,
}
# Ways that are drawn; the others are in the table only.
DRAWN = ("", "temperature", "fVI", "outlier exposure", "everywhere")
# Rows of the figure of one network before and after, as its legend calls them.
BEFORE_AFTER = {
    "ResNet-20": "as it was trained",
    "ResNet-20 temperature": "temperature scaling with 1,000 labelled images",
    "ResNet-20 everywhere": "felbo.finetune",
}
NEAR, FAR = ("cifar100",), ("mnist", "fashion-mnist", "noise")


def others(name: str, size: int) -> Tensor:
    """Return ``size`` images that show none of the ten classes."""
    if name == "noise":
        generator = torch.Generator().manual_seed(0)
        return prepared(torch.randint(256, (size, 3, 32, 32), generator=generator).byte())
    return prepared(felbo.data.load(name, "test").images[:size])


def run(name: str, seed: int, settings: Mapping[str, Any]) -> list[Observation]:
    """Measure one row: clean, corrupted, turned by 90°, and on images of other classes."""
    kind = next(kind for kind in KINDS if name.startswith(kind))
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
        if name == "ResNet-20":
            detected = detection(*(energy(model, part) for part in (x, others(other, size)))).auroc
            observations.append(Observation(f"energy_{other}", 0.0, detected))
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

    for kind in KINDS:
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
        exposed = f"{kind} outlier exposure"
        if kind == "Ensemble" and ("ece", exposed, 0.0) in value:
            both = [
                sum(fmean(value[f"auroc_{n}", name, 0.0] for n in names) for names in (NEAR, FAR))
                for name in (ours, exposed)
            ]
            text = f"{kind}: near and far AUROC together {both[0]:.3f}, outlier exposure"
            found.append(Claim(f"{text} {both[1]:.3f}", both[0] >= both[1]))
    return found


def drawn(name: str) -> bool:
    """Return whether a row is in the figure."""
    return any(name == f"{kind} {way}".strip() for kind in KINDS for way in DRAWN)


def draw(summaries: Sequence[Summary], stem: str) -> None:
    """Draw one panel per metric over the severity of corruptions: all kinds, and one network."""
    scores = [s for s in summaries if s.metric in METRICS]
    panels = partial(draw_curves, metrics=METRICS, xlabel="severity of corruptions")
    panels(
        [s for s in scores if drawn(s.model)],
        stem,
        title="Trained ResNets on CIFAR-10, before and after fine-tuning",
        styles=partial(by_kind_and_way, kinds=tuple(KINDS), ways=DRAWN),
    )
    one = [s._replace(model=BEFORE_AFTER[s.model]) for s in scores if s.model in BEFORE_AFTER]
    if one:
        title = "A trained ResNet-20 on corrupted CIFAR-10, before and after"
        panels(one, f"{stem}_before_after", title=title, styles=before_and_after)


def before_and_after(models: Sequence[str]) -> dict[str, dict[str, str]]:
    """Give the network as it was the colour of warnings, and the fine-tuned one that of ours."""
    colours = dict(zip(BEFORE_AFTER.values(), (PALETTE[4], "#888888", PALETTE[0]), strict=True))
    return {name: {"color": colours[name], "marker": "."} for name in models}


def uses(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a row: those of the ensemble, and strengths only for everywhere."""
    found = {key: value for key, value in settings.items() if key != "ensemble"}
    if name.startswith("Ensemble"):
        found |= settings["ensemble"]
    if not name.endswith("everywhere"):
        del found["strength"], found["data_strength"]
    return found


_ALL: dict[str, Any] = {
    "depths": (20,),
    "ensemble": {"depths": (20, 32, 44, 56)},
    "corruptions": felbo.data.CORRUPTIONS,
    "train_size": 20_000,
    "epochs": 2,
    "precision": "32-true",
    "strength": STRENGTH,
    "data_strength": DATA_STRENGTH,
}

STUDY = Study(
    name="finetune-cifar10",
    title="Fine-tuning on CIFAR-10",
    models={
        f"{kind} {way}".strip(): cost * factor
        for kind, factor in (("ResNet-20", 1.0), ("Ensemble", 4.0))
        for way, cost in WAYS.items()
        if f"{kind} {way}" != "Ensemble Laplace"
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
        "cpu": Preset(
            1,
            {
                **_ALL,
                "severities": (1, 3, 5),
                "test_size": 300,
                "clean_size": 2000,
                "ensemble": {
                    "depths": (20, 32, 44),
                    "precision": "bf16-mixed",
                    "test_size": 100,
                    "clean_size": 1000,
                },
            },
        ),
        "paper": Preset(
            3, {**_ALL, "severities": (1, 2, 3, 4, 5), "test_size": 9000, "clean_size": 9000}
        ),
    },
    run=run,
    draw=draw,
    claims=claims,
    data=("cifar10", "cifar100", "mnist", "fashion-mnist"),
    uses=uses,
)
