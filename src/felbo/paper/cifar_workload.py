"""What the cells of the CIFAR experiments compute, for estimates of their cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import torch

import felbo
from felbo.data import CORRUPTIONS, REGISTRY
from felbo.paper import cifar
from felbo.paper.workload import Workload

# The gradient with respect to the input takes about as long as another pass.
PASSES_OF_AN_ATTACK = 2


def corrupted(name: str, seed: int, settings: Mapping[str, Any], *, dataset: str) -> Workload:
    """Return the workload of a cell of the corrupted experiments."""
    shifts = len(settings["corruptions"]) * sum(s > 0 for s in settings["severities"])
    corrupted_images = shifts * settings["test_size"]
    return _workload(
        name.removesuffix(" (1 sample)"),
        seed,
        settings,
        dataset,
        settings["clean_size"] + corrupted_images,
        lambda: corrupted_images * seconds_per_corruption(),
    )


def adversarial(name: str, seed: int, settings: Mapping[str, Any], *, dataset: str) -> Workload:
    """Return the workload of a cell of the adversarial experiments."""
    attacks = sum(epsilon > 0 for epsilon in settings["epsilons"])
    passes = len(settings["epsilons"]) + PASSES_OF_AN_ATTACK * attacks
    return _workload(name, seed, settings, dataset, passes * settings["test_size"], lambda: 0.0)


def weights_of(dataset: str, name: str, seed: int, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files of the trained weights that a cell needs, see ``cifar.trained_model``."""
    if name == "Ensemble":
        members = settings["members"]
        seeds = range(seed * members, (seed + 1) * members)
        return tuple(f for each in seeds for f in weights_of(dataset, "MAP", each, settings))
    if name == "Subnetwork":
        return weights_of(dataset, "MAP", seed, settings)
    slug = name.lower().replace(" ", "-").replace("(", "").replace(")", "")
    weight = f"-kl{settings['kl_scale']:g}" if "fVI" in name else ""
    network = f"{settings['network']}-{settings['width']}"
    return (f"{dataset}/{network}/{slug}{weight}-{seed}.safetensors",)


@cache
def seconds_per_corruption() -> float:
    """Measure the seconds that it takes to corrupt an image, on a few made-up ones.

    Frost is left out, since it needs files.
    """
    few = torch.randint(256, (16, 3, 32, 32), generator=torch.Generator().manual_seed(0)).byte()
    names = [name for name in CORRUPTIONS if name != "frost"]
    start = time.process_time()
    for name in names:
        felbo.data.corrupt(few, name, 3, generator=torch.Generator().manual_seed(0))
    return (time.process_time() - start) / (len(few) * len(names))


def _workload(
    name: str,
    seed: int,
    settings: Mapping[str, Any],
    dataset: str,
    predictions: int,
    beside: Callable[[], float],
) -> Workload:
    epochs = settings["rank1_epochs" if name.startswith("Rank1") else "epochs"]
    steps = epochs * -(-settings["train_size"] // settings["batch_size"])
    draws = cifar.draws_of(name)
    if name == "Subnetwork":
        # The curvature takes a backward pass per class for each training image, a draw in
        # prediction the pass itself and a product with the Jacobian.
        predictions = 2 * draws * predictions if draws else predictions
        predictions += settings["train_size"] * (1 + 2 * cifar.CLASSES[dataset])
        draws = None
    # A conventional ensemble is made of MAP networks; its prediction is one pass through each.
    trained_as = "MAP" if name in ("Ensemble", "Subnetwork") else name
    passes = predictions * (settings["members"] if name == "Ensemble" else 1)
    shape = REGISTRY[dataset].image_shape
    images = settings["train_size"] * (2 if name == "Prior Networks" else 1)
    return Workload(
        model=partial(cifar.build, dataset, trained_as, seed, settings),
        objective=partial(_objective, dataset, trained_as, settings, epochs, steps),
        inputs=shape,
        classes=cifar.CLASSES[dataset],
        batch_size=settings["batch_size"],
        steps=steps,
        trainings=weights_of(dataset, name, seed, settings),
        passes=passes,
        draws=draws,
        # Pixels as bytes and as float32.
        data_bytes=images * 5 * shape[0] * shape[1] * shape[2],
        precision=settings["precision"],
        beside=beside,
    )


def _objective(
    dataset: str, name: str, settings: Mapping[str, Any], epochs: int, steps: int, size: int
) -> felbo.Objective:
    """Return the objective of a training, for a batch of ``size``, without reading data."""
    if name == "Prior Networks":
        outside = torch.randn(size, *REGISTRY[dataset].image_shape)
        return felbo.PriorNetwork(felbo.measurement.Pool(outside, size))
    return cifar.objective(dataset, name, settings, epochs, steps)
