"""CIFAR-10 and CIFAR-100 under the 19 corruptions of CIFAR-C, severity by severity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from statistics import fmean
from typing import Any

from torch import Tensor

import felbo
from felbo.paper import cifar_workload
from felbo.paper.cifar import (
    COSTS,
    CPU,
    CPU_RESNET18,
    KINDS,
    PAPER,
    SMOKE,
    draws_of,
    prepared,
    trained_model,
)
from felbo.paper.cifar_claims import ordered_as_published
from felbo.paper.published import published
from felbo.paper.results import Observation, Summary
from felbo.paper.study import Claim, Preset, Study
from felbo.report import draw_curves
from felbo.report.style import PALETTE

METRICS = ("accuracy", "log_likelihood", "ece")
SERIES = tuple(name for kind in KINDS for name in (kind, f"{kind} fVI"))
BASELINES = (
    "MAP",
    "MAP fVI",
    "Ensemble fVI",
    "Belief Matching",
    "Prior Networks",
    "Evidential",
    "Subnetwork",
)
ABLATION = tuple(
    f"{name} ({count})"
    for name in ("MC Dropout", "MC Dropout fVI")
    for count in ("1 sample", "5 samples")
)


@lru_cache(maxsize=2)
def test_data(dataset: str, corruption: str, severity: int, size: int) -> tuple[Tensor, Tensor]:
    """Return test images under a corruption, normalised, and their labels; severity 0 is clean."""
    if severity == 0:
        found = felbo.data.load(dataset, "test")
        images, labels = found.images[:size], found.labels[:size]
    else:
        found = felbo.data.corrupted(dataset, corruption, severity, limit=size)
        images, labels = found.images, found.labels
    return prepared(images, dataset), labels


def run(
    name: str, seed: int, settings: Mapping[str, Any], *, dataset: str = "cifar10"
) -> list[Observation]:
    """Train one model, or read its weights, and score it at every severity.

    A number at a severity is the mean over the corruptions of the number for each of them.
    """
    model = trained_model(dataset, name.removesuffix(" (1 sample)"), seed, settings)
    observations = []
    for severity in settings["severities"]:
        corruptions = settings["corruptions"] if severity else ("none",)
        size = settings["test_size"] if severity else settings["clean_size"]
        scores = []
        for corruption in corruptions:
            images, labels = test_data(dataset, corruption, severity, size)
            prediction = felbo.predict(
                model, images, num_samples=draws_of(name), batch_size=500, seed=seed
            )
            scores.append(felbo.score(prediction, labels))
        for metric in METRICS:
            mean = fmean(getattr(score, metric) for score in scores)
            observations.append(Observation(metric, float(severity), mean))
    return observations


def claims(summaries: Sequence[Summary], severities: Sequence[float] = (3, 4, 5)) -> list[Claim]:
    """Check what the paper concludes, wherever both of two models were measured."""
    value = {(s.metric, s.model, s.shift): s.mean for s in summaries}
    found = []
    for kind in KINDS:
        plain, fvi = kind, f"{kind} fVI"
        at = [s for s in severities if all((METRICS[1], m, s) in value for m in (plain, fvi))]
        if not at:
            continue
        where = f"at {', '.join(f'{s:g}' for s in at)}"
        better = all(
            value["log_likelihood", fvi, s] > value["log_likelihood", plain, s] for s in at
        )
        found.append(Claim(f"{kind}: fVI has the better log-likelihood {where}", better))
        gaps = [value["accuracy", fvi, s] - value["accuracy", plain, s] for s in at]
        worst = min(gaps)
        text = f"{kind}: fVI keeps the accuracy {where}, within 2 points ({worst:+.2f})"
        found.append(Claim(text, worst >= -2.0))
        calibrated = all(value["ece", fvi, s] < value["ece", plain, s] for s in at)
        found.append(Claim(f"{kind}: fVI has the smaller calibration error {where}", calibrated))
    return found


def baseline_claims(summaries: Sequence[Summary]) -> list[Claim]:
    """Check the order of the function-space models and the other Dirichlet methods."""
    pairs = [(ours, other) for ours in BASELINES[1:3] for other in BASELINES[3:]]
    ordered = ordered_as_published(summaries, pairs, "corrupted_cifar10")
    return claims(summaries) + ordered


def ablation_claims(summaries: Sequence[Summary]) -> list[Claim]:
    """Check the effect of five draws in training."""
    pairs = [(ABLATION[0], ABLATION[1]), (ABLATION[2], ABLATION[3])]
    return ordered_as_published(summaries, pairs, "corrupted_cifar10_sample_ablation")


def styles(models: Sequence[str]) -> dict[str, dict[str, str]]:
    """Give each kind of model a colour; fVI is a solid line, its counterpart a dashed one."""
    kinds = list(dict.fromkeys(_kind(name) for name in models))
    colours = {kind: PALETTE[i % len(PALETTE)] for i, kind in enumerate(kinds)}
    return {
        name: {"color": colours[_kind(name)], "linestyle": "-" if "fVI" in name else "--"}
        for name in models
    }


def _kind(name: str) -> str:
    return name.replace(" fVI", "")


def draw(
    summaries: Sequence[Summary], stem: str, *, title: str, experiment: str, xlabel: str
) -> None:
    """Draw one panel per metric, with the published curves beside."""
    draw_curves(
        summaries,
        stem,
        metrics=METRICS,
        xlabel=xlabel,
        title=title,
        published=published(experiment),
        styles=styles,
    )


def presets(kl_scale: float, own: Mapping[str, Mapping[str, Any]], seeds: int) -> dict[str, Preset]:
    """Return the presets with what a study adds to each."""
    return {
        "smoke": Preset(1, {**SMOKE, "kl_scale": kl_scale, **own["smoke"]}),
        "cpu": Preset(1, {**CPU, "kl_scale": kl_scale, **own["cpu"]}),
        "cpu-resnet18": Preset(1, {**CPU_RESNET18, "kl_scale": kl_scale, **own["cpu"]}),
        "paper": Preset(seeds, {**PAPER, "kl_scale": kl_scale, **own["paper"]}),
    }


_ALL = {"corruptions": felbo.data.CORRUPTIONS, "severities": (0, 1, 2, 3, 4, 5)}
_SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "corruptions": ("gaussian_noise", "fog"),
        "severities": (0, 5),
        "test_size": 64,
        "clean_size": 128,
    },
    "cpu": {**_ALL, "test_size": 1000, "clean_size": 10_000},
    "paper": {**_ALL, "test_size": 10_000, "clean_size": 10_000},
}


def _study(
    name: str,
    title: str,
    dataset: str,
    series: Sequence[str],
    kl_scale: float,
    experiment: str,
    claims: Callable[[Sequence[Summary]], list[Claim]] = claims,
    sizes: Mapping[str, Mapping[str, Any]] = _SIZES,
    uses: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = lambda model, settings: settings,
) -> Study:
    return Study(
        name=name,
        title=title,
        models={each: next(c for k, c in COSTS.items() if each.startswith(k)) for each in series},
        presets=presets(kl_scale, sizes, seeds=10),
        run=partial(run, dataset=dataset),
        draw=partial(draw, title=title, experiment=experiment, xlabel="severity"),
        claims=claims,
        data=(dataset,),
        compared_with=experiment,
        workload=partial(cifar_workload.corrupted, dataset=dataset),
        uses=uses,
    )


def with_own_rate(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a model: with its own learning rate, if there is one for it."""
    found = {key: value for key, value in settings.items() if key != "own_rates"}
    return {**found, "rate": settings.get("own_rates", {}).get(name, found["rate"])}


CIFAR10 = _study(
    "corrupted-cifar10", "Corrupted CIFAR-10", "cifar10", SERIES, 1.0, "corrupted_cifar10"
)
CIFAR100 = _study(
    "corrupted-cifar100", "Corrupted CIFAR-100", "cifar100", SERIES, 0.1, "corrupted_cifar100"
)
CIFAR100_FULL_WEIGHT = _study(
    "corrupted-cifar100-full-weight",
    "Corrupted CIFAR-100, KL weight 1 / B",
    "cifar100",
    ("MAP", "MAP fVI"),
    1.0,
    "corrupted_cifar100",
)
BASELINES_CIFAR10 = _study(
    "baselines-cifar10",
    "Corrupted CIFAR-10, other Dirichlet methods",
    "cifar10",
    BASELINES,
    1.0,
    "corrupted_cifar10",
    baseline_claims,
    # At the rate of the others they do not learn; this one was found on validation images.
    {**_SIZES, "cpu": {**_SIZES["cpu"], "own_rates": {"Prior Networks": 0.002}}},
    with_own_rate,
)
ABLATION_CIFAR10 = _study(
    "sample-ablation-cifar10",
    "Corrupted CIFAR-10, draws in training",
    "cifar10",
    ABLATION,
    1.0,
    "corrupted_cifar10_sample_ablation",
    ablation_claims,
    # Five draws in training take five times as long: half the width.
    {**_SIZES, "cpu": {**_SIZES["cpu"], "width": 16}},
)
