"""CIFAR-10 and CIFAR-100 under attack: FGSM on the mean predictive."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import felbo
from felbo.evaluation.attacks import fgsm
from felbo.paper import cifar_workload
from felbo.paper.cifar import COSTS, draws_of, trained_model
from felbo.paper.corrupted_cifar import METRICS, SERIES, claims, draw, presets, test_data
from felbo.paper.results import Observation
from felbo.paper.study import Study

EPSILONS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)


def run(
    name: str, seed: int, settings: Mapping[str, Any], *, dataset: str = "cifar10"
) -> list[Observation]:
    """Train one model, or read its weights, and score it under attacks of growing size.

    Sizes are in normalised units, which fit the published numbers best.
    """
    model = trained_model(dataset, name, seed, settings)
    images, labels = test_data(dataset, "none", 0, settings["test_size"])
    info = felbo.data.REGISTRY[dataset]
    low = [(0.0 - mean) / std for mean, std in zip(info.mean, info.std, strict=True)]
    high = [(1.0 - mean) / std for mean, std in zip(info.mean, info.std, strict=True)]
    observations = []
    for epsilon in settings["epsilons"]:
        attacked = fgsm(
            model,
            images,
            labels,
            epsilon,
            low=low,
            high=high,
            num_samples=draws_of(name),
            batch_size=250,
            seed=seed,
        )
        prediction = felbo.predict(
            model, attacked, num_samples=draws_of(name), batch_size=500, seed=seed
        )
        scores = felbo.score(prediction, labels)
        for metric in METRICS:
            observations.append(Observation(metric, epsilon, getattr(scores, metric)))
    return observations


_SIZES: dict[str, dict[str, Any]] = {
    "smoke": {"epsilons": (0.0, 0.1), "test_size": 64},
    "cpu": {"epsilons": EPSILONS, "test_size": 1000},
    "paper": {"epsilons": EPSILONS, "test_size": 10_000},
}


def _study(name: str, title: str, dataset: str, kl_scale: float) -> Study:
    experiment = name.replace("-", "_")
    return Study(
        name=name,
        title=title,
        models={each: next(c for k, c in COSTS.items() if each.startswith(k)) for each in SERIES},
        presets=presets(kl_scale, _SIZES, seeds=10),
        run=partial(run, dataset=dataset),
        draw=partial(draw, title=title, experiment=experiment, xlabel="ε (normalised units)"),
        claims=partial(claims, severities=EPSILONS[1:]),
        data=(dataset,),
        compared_with=experiment,
        workload=partial(cifar_workload.adversarial, dataset=dataset),
    )


CIFAR10 = _study("adversarial-cifar10", "CIFAR-10 under FGSM", "cifar10", 1.0)
CIFAR100 = _study("adversarial-cifar100", "CIFAR-100 under FGSM", "cifar100", 0.1)
