"""Trained ResNets of CIFAR-10, and the ways to go on from them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo.data.augmentation import random_crop_flip
from felbo.objectives import as_objective
from felbo.paper.trained import trained
from felbo.studies.rivals import NormalisedLogits, smoothed_labels
from felbo.training.devices import best_device

ENVIRONMENT_VARIABLE = "FELBO_TRAINED"
# Of ImageNet, with which the authors of the networks normalised CIFAR-10.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
KINDS = ("ResNet-20", "Ensemble")
# The highest rate where it is not 0.01: at that, normalised logits diverge on the
# training images. Of 0.003 and 0.001 the larger one was taken.
RATES = {"LogitNorm": 0.003}


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


def ready(depths: Sequence[int]) -> felbo.StochasticClassifier:
    """Return the trained networks as they are, several as an ensemble."""
    networks = [felbo.networks.load_resnet_cifar(network_file(depth)) for depth in depths]
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


def tuned_model(
    name: str, kind: str, seed: int, settings: Mapping[str, Any]
) -> felbo.StochasticClassifier:
    """Return the model of a row, e.g. ``"Ensemble everywhere"``, from its file if it was kept."""
    model, way = ready(settings["depths"]), name.removeprefix(kind).strip()
    if not way:
        return model
    if way == "temperature":
        held_out = felbo.data.load("cifar10", "test")
        x, y = prepared(held_out.images[-1000:]), held_out.labels[-1000:]
        return felbo.calibrate(model, (x, y), batch_size=500)
    if way == "Laplace":
        return last_layer_laplace(model, settings["train_size"])
    if way == "LogitNorm":
        model = normalised(model)
    keys = ("depths", "train_size", "epochs", "precision", "strength", "data_strength")
    own = {key: settings[key] for key in keys if key in settings}
    slug = name.lower().replace(" ", "-")
    return trained(
        f"finetune-cifar10/{slug}-{own['train_size']}-{seed}",
        {**own, "name": name, "seed": seed},
        lambda: model,
        partial(tune, way=way, seed=seed, settings=settings),
    )


def networks_of(model: felbo.StochasticClassifier) -> list[nn.Module]:
    """Return the networks inside a model."""
    if isinstance(model, felbo.Ensemble):
        return [model.member(index) for index in range(model.training_samples)]
    return [part for name, part in model.named_children() if name == "network"]


def normalised(model: felbo.StochasticClassifier) -> felbo.StochasticClassifier:
    """Return the model with normalised logits."""
    networks = [NormalisedLogits(network) for network in networks_of(model)]
    return felbo.MAP(*networks) if len(networks) == 1 else felbo.Ensemble.from_networks(networks)


def last_layer_laplace(model: felbo.StochasticClassifier, size: int) -> felbo.StochasticClassifier:
    """Return a Laplace approximation of the last layer of a single network."""
    data = TensorDataset(*training_data(size))
    laplace = felbo.SubnetworkLaplace(networks_of(model)[0], "last")
    return laplace.fit(DataLoader(data, batch_size=500))


def tune(
    model: felbo.StochasticClassifier,
    checkpoint: Path,
    *,
    way: str,
    seed: int,
    settings: Mapping[str, Any],
) -> None:
    """Fine-tune a model, leaving the new weights in it; it takes minutes, without checkpoints."""
    data = training_data(settings["train_size"])
    tuned = felbo.finetune(
        model,
        data,
        objective(way, len(data[0]), settings),
        epochs=settings["epochs"],
        learning_rate=RATES.get(way, 0.01),
        augment=random_crop_flip,
        seed=seed,
        fabric=best_device(settings["precision"]),
        progress=False,
    )
    model.load_state_dict(tuned.state_dict())


def objective(way: str, num_data: int, settings: Mapping[str, Any]) -> felbo.Objective:
    """Return what a way of fine-tuning minimises."""
    prior = felbo.UniformPrior(10)
    if way == "everywhere":
        strengths = settings["strength"], settings["data_strength"]
        return felbo.FunctionSpaceELBO.everywhere(prior, num_data, *strengths)
    objectives: dict[str, felbo.Objective] = {
        "further training": felbo.NegativeLogLikelihood(),
        "label smoothing": as_objective(smoothed_labels),
        "LogitNorm": felbo.NegativeLogLikelihood(),
        "outlier exposure": felbo.OutlierExposure(felbo.measurement.Elsewhere()),
        "fVI": felbo.FunctionSpaceELBO(prior, num_data),
    }
    return objectives[way]
