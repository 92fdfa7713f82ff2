"""Trainings drawn at random: model, optimiser, schedule, measurement set, data, checkpoints."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo import measurement
from felbo.training import Checkpoint

CLASSES, EPOCHS, BATCHES = 3, 6, 4


def _network() -> torch.nn.Module:
    return felbo.networks.mlp(2, (8,), CLASSES)


def _normalised() -> torch.nn.Module:
    layers = torch.nn.Linear(2, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU()
    return torch.nn.Sequential(*layers, torch.nn.Linear(8, CLASSES))


MODELS: dict[str, Callable[[], Any]] = {
    "MAP": lambda: felbo.MAP(_normalised()),
    "MCDropout": lambda: felbo.MCDropout(_network(), rate=0.2),
    "Ensemble": lambda: felbo.Ensemble(_network, members=3),
    "MeanField": lambda: felbo.MeanField(_network()),
    "Radial": lambda: felbo.Radial(_network()),
    "Rank1": lambda: felbo.Rank1(_network(), members=2),
    "ConcentrationNetwork": lambda: felbo.ConcentrationNetwork(_network()),
}
OPTIMISERS: dict[str, Any] = {
    "Adam": None,
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "RAdam": torch.optim.RAdam,
    "Adamax": torch.optim.Adamax,
    "Adadelta": torch.optim.Adadelta,
    "Adafactor": torch.optim.Adafactor,
    "ASGD": torch.optim.ASGD,
    "Rprop": torch.optim.Rprop,
    "LBFGS": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=2),
}
SCHEDULES: dict[str, tuple[Any, str]] = {
    "none": (None, "epoch"),
    "step": (lambda o: lr_scheduler.StepLR(o, 2), "epoch"),
    "cosine": (lambda o: lr_scheduler.CosineAnnealingLR(o, EPOCHS), "epoch"),
    "restarts": (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2), "epoch"),
    "plateau": (lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0), "epoch"),
    "exponential": (lambda o: lr_scheduler.ExponentialLR(o, 0.9), "step"),
    "linear": (lambda o: lr_scheduler.LinearLR(o, total_iters=9), "step"),
}


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


POINTS: dict[str, Callable[[], Any]] = {
    "batch": lambda: None,
    "grid": lambda: measurement.Grid([(-2, 2), (-2, 2)], step=1.0),
    "elsewhere": lambda: measurement.Elsewhere(generator=_generator()),
    "global": measurement.Elsewhere,
    "columns": lambda: measurement.ShuffledColumns(_generator()),
}


class Training:
    """A training whose parts are drawn from a seed.

    Args:
        seed: of the choice of parts.
    """

    def __init__(self, seed: int) -> None:
        source = random.Random(seed)
        self.model = source.choice(list(MODELS))
        self.optimiser = source.choice(list(OPTIMISERS))
        self.schedule = source.choice(list(SCHEDULES))
        self.points = source.choice(list(POINTS))
        self.loader = source.random() < 0.3
        self.patience = source.choice([None, 2])
        self.seed = source.choice([3, None])
        self.seconds = source.choice([0.0, 0.02, 1e9])

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in vars(self).items())

    def run(self, folder: Path, out: Path) -> None:
        """Train from the last checkpoint in a folder to the end; write weights and history."""
        felbo.seed_everything(0)
        model = MODELS[self.model]()
        points = POINTS[self.points]()
        objective: Any = felbo.FunctionSpaceELBO(
            felbo.UniformPrior(CLASSES), 64, measurement=points
        )
        if self.model == "ConcentrationNetwork":
            objective = felbo.Evidential(annealing_steps=9)  # which counts steps
        scheduler, step = SCHEDULES[self.schedule]
        x = torch.randn(80, 2, generator=_generator())
        y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
        given: Any = (x[:64], y[:64])
        if self.loader:
            given = DataLoader(TensorDataset(*given), 64 // BATCHES, shuffle=True)
        history = felbo.fit(
            model,
            objective,
            given,
            epochs=EPOCHS,
            batch_size="auto" if self.loader else 64 // BATCHES,
            optimizer=OPTIMISERS[self.optimiser],
            scheduler=scheduler,
            scheduler_step=step,
            validation=(x[64:], y[64:]),
            patience=self.patience,
            seed=self.seed,
            checkpoint=Checkpoint(folder, self.seconds),
            progress=False,
        )
        felbo.save(model, out)
        out.with_suffix(".txt").write_text(repr(history.epochs))
