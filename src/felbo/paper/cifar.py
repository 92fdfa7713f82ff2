"""The models of the CIFAR experiments: how each is built and trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import felbo
from felbo.data.augmentation import random_crop_flip
from felbo.paper.trained import trained
from felbo.training.devices import best_device

CLASSES = {"cifar10": 10, "cifar100": 100}

# Relative cost of a training; an ensemble is five, a rank-1 model has a quarter more epochs.
COSTS = {
    "MAP": 1.0,
    "MC Dropout": 1.2,
    "Ensemble": 5.0,
    "Radial": 1.3,
    "Rank1": 1.6,
    "Belief Matching": 1.0,
    "Prior Networks": 2.0,
    "Evidential": 1.0,
    "Subnetwork": 0.5,
}
KINDS = ("MAP", "MC Dropout", "Ensemble", "Radial", "Rank1")
DIRECT = ("Belief Matching", "Prior Networks", "Evidential")

# What trainings have in common. `network` and `width` say which one; `schedule` is "step" (the rate
# falls to a tenth after half and three quarters of the epochs) or "one-cycle" (per step, up to
# `rate` and down again in straight lines). `precision` is that of training, as Fabric names it;
# models are evaluated in float32.
PAPER: dict[str, Any] = {
    "network": "resnet18",
    "width": 64,
    "train_size": 50_000,
    "epochs": 200,
    "rank1_epochs": 250,
    "schedule": "step",
    "rate": 0.1,
    "batch_size": 128,
    "members": 5,
    "rank1_members": 4,
    "precision": "32-true",
}
CPU: dict[str, Any] = {
    **PAPER,
    "network": "compact",
    "width": 32,
    "epochs": 10,
    "rank1_epochs": 12,
    "schedule": "one-cycle",
    "rate": 0.2,
}
# The paper's network, as wide as two cores can train it.
CPU_RESNET18: dict[str, Any] = {**CPU, "network": "resnet18", "width": 16}
SMOKE: dict[str, Any] = {
    **CPU,
    "width": 4,
    "train_size": 512,
    "epochs": 2,
    "rank1_epochs": 2,
    "members": 2,
    "rank1_members": 2,
}


def trained_model(
    dataset: str, name: str, seed: int, settings: Mapping[str, Any]
) -> felbo.StochasticClassifier:
    """Return a trained model, e.g. ``"Radial fVI"`` or ``"MC Dropout fVI (5 samples)"``."""
    if name == "Ensemble":
        # Conventional members know nothing of each other: they are MAP networks of other seeds.
        members = settings["members"]
        seeds = range(seed * members, (seed + 1) * members)
        parts = [trained_model(dataset, "MAP", each, settings) for each in seeds]
        return felbo.Ensemble.from_networks([network_of(part) for part in parts])
    if name == "Subnetwork":
        point = trained_model(dataset, "MAP", seed, settings)
        return fitted_laplace(network_of(point), dataset, settings["train_size"])
    slug = name.lower().replace(" ", "-").replace("(", "").replace(")", "")
    own = {key: settings[key] for key in PAPER}
    if "fVI" in name:  # the same name with another weight of the KL is another training
        own["kl_scale"] = settings["kl_scale"]
        slug += f"-kl{own['kl_scale']:g}"
    return trained(
        f"{dataset}/{own['network']}-{own['width']}/{slug}-{seed}",
        {**own, "dataset": dataset, "name": name, "seed": seed},
        partial(build, dataset, name, seed, settings),
        partial(train, dataset=dataset, name=name, seed=seed, settings=settings),
    )


def build(
    dataset: str, name: str, seed: int, settings: Mapping[str, Any]
) -> felbo.StochasticClassifier:
    """Make an untrained model; the seed decides where its weights start."""
    classes, width = CLASSES[dataset], settings["width"]

    def network() -> nn.Module:
        if settings["network"] == "resnet18":
            made: nn.Module = felbo.networks.resnet18(classes, width=width)
        else:
            made = felbo.networks.compact(classes, width=width)
        # channels_last is faster on processors; torch's annotations leave it out.
        return made.to(memory_format=torch.channels_last)  # type: ignore[no-any-return,call-overload]

    felbo.seed_everything(seed)
    if name.startswith("MC Dropout"):
        first = "conv1" if settings["network"] == "resnet18" else "stem"
        return felbo.MCDropout(network(), rate=0.2, skip=(first,))
    if name.startswith("Ensemble"):
        return felbo.Ensemble(network, members=settings["members"])
    if name.startswith("Radial"):
        return felbo.Radial(network(), skip=("fc",), rho=-5.0, prior_std=0.1)
    if name.startswith("Rank1"):
        return felbo.Rank1(network(), settings["rank1_members"], rho=-3.0, prior_std=0.1)
    if name in DIRECT:
        return felbo.ConcentrationNetwork(network(), "relu" if name == "Evidential" else "exp")
    return felbo.MAP(network())


def train(
    model: felbo.StochasticClassifier,
    checkpoint: Path,
    *,
    dataset: str,
    name: str,
    seed: int,
    settings: Mapping[str, Any],
) -> None:
    """Train a model in place as method and preset say."""
    x, y = training_data(dataset, settings["train_size"])
    epochs = settings["rank1_epochs" if name.startswith("Rank1") else "epochs"]
    steps = epochs * -(-len(x) // settings["batch_size"])
    felbo.fit(
        model,
        objective(dataset, name, settings, epochs, steps),
        (x, y),
        epochs=epochs,
        batch_size=settings["batch_size"],
        optimizer=partial(sgd, model, weight_decay(name), settings["rate"]),
        scheduler=partial(schedule, settings=settings, epochs=epochs, steps=steps),
        scheduler_step="epoch" if settings["schedule"] == "step" else "step",
        augment=random_crop_flip,
        seed=seed,
        fabric=best_device(settings["precision"]),
        checkpoint=checkpoint,
        progress=False,
    )


def objective(
    dataset: str, name: str, settings: Mapping[str, Any], epochs: int, steps: int
) -> felbo.Objective:
    """Return what a model is trained with."""
    classes, size = CLASSES[dataset], settings["train_size"]
    samples = 5 if "5 samples" in name else None
    if "fVI" in name:
        return felbo.FunctionSpaceELBO(
            felbo.UniformPrior(classes),
            num_data=size,
            kl_weight=settings["kl_scale"] / settings["batch_size"],
            num_samples=samples if name.startswith("MC Dropout") else None,
        )
    if name in ("Radial", "Rank1"):
        return felbo.WeightSpaceELBO(num_data=size)
    if name == "Belief Matching":
        return felbo.BeliefMatching(felbo.UniformPrior(classes))
    if name == "Evidential":
        return felbo.Evidential(annealing_steps=max(steps // 2, 1))
    if name == "Prior Networks":
        other = "cifar100" if dataset == "cifar10" else "cifar10"
        outside, _ = training_data(other, size)
        return felbo.PriorNetwork(felbo.measurement.Pool(outside, settings["batch_size"]))
    return felbo.NegativeLogLikelihood(samples if name.startswith("MC Dropout") else None)


def weight_decay(name: str) -> float:
    """Weight decay is the weight prior of conventional models without a posterior of their own."""
    if "fVI" in name or name == "Radial":
        return 0.0
    return 1e-4 if name == "Rank1" else 5e-4


def sgd(
    model: felbo.StochasticClassifier,
    decay: float,
    rate: float,
    parameters: Iterable[nn.Parameter],
) -> torch.optim.SGD:
    """SGD with momentum; the random factors of rank-1 layers have a prior and no weight decay."""
    factors = {p for n, p in model.named_parameters() if ".input." in n or ".output." in n}
    everything = list(parameters)
    groups = [
        {"params": [p for p in everything if p not in factors], "weight_decay": decay},
        {"params": [p for p in everything if p in factors], "weight_decay": 0.0},
    ]
    return torch.optim.SGD([group for group in groups if group["params"]], lr=rate, momentum=0.9)


def schedule(
    optimizer: torch.optim.Optimizer, *, settings: Mapping[str, Any], epochs: int, steps: int
) -> torch.optim.lr_scheduler.LRScheduler:
    """Return the learning-rate schedule of a preset."""
    if settings["schedule"] == "step":
        # 100 and 150 of 200 epochs; 150 and 200 of the 250 of rank-1 models.
        falls = [epochs - epochs // 2, epochs - epochs // 4] if epochs <= 200 else [150, 200]
        return torch.optim.lr_scheduler.MultiStepLR(optimizer, falls, gamma=0.1)
    return torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        settings["rate"],
        total_steps=steps,
        # At least two steps up: torch divides by the steps of a phase less one.
        pct_start=max(0.25, 2 / steps),
        anneal_strategy="linear",
        cycle_momentum=False,
    )


@lru_cache(maxsize=2)
def training_data(dataset: str, size: int) -> tuple[Tensor, Tensor]:
    """Return the first ``size`` training images, normalised, and their labels."""
    found = felbo.data.load(dataset, "train")
    return prepared(found.images[:size], dataset), found.labels[:size]


def prepared(images: Tensor, dataset: str) -> Tensor:
    """Return images as the networks take them: normalised, channels last in memory."""
    info = felbo.data.REGISTRY[dataset]
    return felbo.data.normalize(images, info.mean, info.std).contiguous(
        memory_format=torch.channels_last
    )


def network_of(model: felbo.StochasticClassifier) -> nn.Module:
    """Return the network inside a MAP model."""
    assert isinstance(model, felbo.MAP)
    return model.network


def fitted_laplace(network: nn.Module, dataset: str, size: int) -> felbo.StochasticClassifier:
    """Put a Laplace posterior over the largest weights of a trained network."""
    x, y = training_data(dataset, size)
    data = torch.utils.data.TensorDataset(x, y)
    model = felbo.SubnetworkLaplace(network, subnetwork="largest", size=500)
    return model.fit(torch.utils.data.DataLoader(data, batch_size=128))


def draws_of(name: str) -> int | None:
    """Draws in prediction; ``None`` is the model's own default (ten, or one per member)."""
    return 10 if name.startswith(("MC Dropout", "Radial", "Subnetwork")) else None
