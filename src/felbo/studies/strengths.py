"""How strong a prior elsewhere can be before it costs something on the data.

The rule for the default strength of :meth:`felbo.FunctionSpaceELBO.everywhere`: the strongest that
costs at most 0.02 nats and 0.3 points. The claims say on which data sets the default meets it.
Everything is measured on a fifth of the training data; no test image is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from sklearn import datasets
from torch import Tensor

import felbo
from felbo.paper.results import Observation, Summary
from felbo.paper.rotated_mnist import build
from felbo.paper.study import Claim, Preset, Study
from felbo.report import draw_curves

METRICS = ("nats", "points", "auroc")
LABELS = {
    "nats": "log-likelihood lost (nats)",
    "points": "accuracy lost (%)",
    "auroc": "AUROC of points elsewhere",
}
IMAGES = {"MNIST": "mnist", "Fashion-MNIST": "fashion-mnist", "CIFAR-10": "cifar10"}
# Images of one channel: those that other studies compare sets of points on.
GREY = ("MNIST", "Fashion-MNIST")
TABLES: dict[str, Callable[..., Any]] = {
    "breast cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "iris": datasets.load_iris,
}
# Data sets, each with the cost of its sweep relative to the cheapest.
MODELS = {
    "MNIST": 10.0,
    "Fashion-MNIST": 10.0,
    "CIFAR-10": 200.0,
    "digits": 1.0,
    **dict.fromkeys(TABLES, 1.0),
}


def data_of(name: str, size: int) -> tuple[Tensor, Tensor]:
    """Return the training data of a set: images in [−1, 1], or a table of standardised columns."""
    if name in IMAGES:
        found = felbo.data.load(IMAGES[name], "train")
        return felbo.data.scale(found.images[:size]), found.labels[:size]
    load = TABLES.get(name, datasets.load_digits)
    values, labels = load(return_X_y=True)
    x, y = torch.tensor(values, dtype=torch.float32), torch.tensor(labels)
    if name == "digits":
        return (x / 8.0 - 1.0).reshape(-1, 1, 8, 8), y
    return (x - x.mean(0)) / x.std(0), y


def model_of(name: str, x: Tensor, classes: int) -> felbo.StochasticClassifier:
    """Make the untrained model of a set: MAP for images, five members for a table."""
    if name == "CIFAR-10":
        network = felbo.networks.compact(classes, width=16)
        # channels_last is faster on processors; torch's annotations leave it out.
        return felbo.MAP(network.to(memory_format=torch.channels_last))  # type: ignore[call-overload]
    if name in IMAGES:
        return build("MAP", "glorot", "hidden")
    if name == "digits":
        return felbo.MAP(felbo.networks.mlp(64, (50, 50), classes))
    return felbo.Ensemble(lambda: felbo.networks.mlp(x.shape[1], (50, 50), classes), members=5)


def run(name: str, seed: int, settings: Mapping[str, Any]) -> list[Observation]:
    """Sweep the strength on one data set; the seed decides which fifth is held out."""
    x, y = data_of(name, settings["train_size"])
    large = name in IMAGES
    choice = felbo.choose_strength(
        partial(model_of, name, x, int(y.max()) + 1),
        (x, y),
        strengths=settings["strengths"],
        data_strength=settings["data_strength"],
        epochs=settings["epochs" if large else "small_epochs"],
        batch_size=256 if large else 32,
        learning_rate=1e-3,
        seed=seed,
    )
    return [
        Observation(metric, trial.strength, getattr(trial, metric))
        for trial in choice.trials
        for metric in ("accuracy", "log_likelihood", "ece", *METRICS)
    ]


def claims(summaries: Sequence[Summary]) -> list[Claim]:
    """Say for each set which strengths it can afford, and whether the default is among them."""
    default = felbo.FunctionSpaceELBO.everywhere(felbo.UniformPrior(2), 10).terms[-1].weight
    value = {(s.metric, s.model, s.shift): s.mean for s in summaries}
    found = []
    for name in MODELS:
        if ("nats", name, default) in value:
            nats, points = (value[metric, name, default] for metric in ("nats", "points"))
            text = f"{name}: strength {default:g} costs {nats:+.3f} nats and {points:+.2f} points"
            found.append(Claim(text, nats <= 0.02 and points <= 0.3))
    return found


def draw(summaries: Sequence[Summary], stem: str) -> None:
    """Draw what each strength costs and buys, one line per data set."""
    draw_curves(
        [s for s in summaries if s.shift > 0],
        stem,
        metrics=METRICS,
        xlabel="strength of the prior elsewhere",
        title="What a prior elsewhere costs on validation data, and what it buys",
        xscale="log",
        labels=LABELS,
    )


def _settings(size: int, epochs: int, small_epochs: int, *strengths: float) -> dict[str, Any]:
    return {
        "train_size": size,
        "epochs": epochs,
        "small_epochs": small_epochs,
        "strengths": strengths,
        "data_strength": 0.001,
    }


STUDY = Study(
    name="strengths",
    title="Strength of a prior elsewhere",
    models=MODELS,
    presets={
        "smoke": Preset(1, _settings(1000, 1, 2, 0.03)),
        "cpu": Preset(2, _settings(20000, 10, 100, 0.01, 0.03, 0.1)),
        "paper": Preset(5, _settings(60000, 30, 100, 0.003, 0.01, 0.03, 0.1, 0.3)),
    },
    run=run,
    draw=draw,
    claims=claims,
    data=tuple(IMAGES.values()),
)
