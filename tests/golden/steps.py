"""Fifty training steps per model and objective: the numbers that no optimisation may change.

All are in float64, and those of the plain bound in float32 too, with a tolerance of its own.

Run this file to record them anew, which is right only when the mathematics changes on purpose.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from sklearn.datasets import load_digits

import felbo

STEPS = 50
FILE = Path(__file__).with_name("steps.json")
MODELS = {
    "MAP": lambda net: felbo.MAP(net()),
    "MCDropout": lambda net: felbo.MCDropout(net(), rate=0.2),
    "Ensemble": lambda net: felbo.Ensemble(net, members=4),
    "MeanField": lambda net: felbo.models.MeanField(net()),
    "Radial": lambda net: felbo.models.Radial(net()),
    "Rank1": lambda net: felbo.models.Rank1(net(), members=4),
}
OBJECTIVES = {
    "nll": felbo.NegativeLogLikelihood(),
    "fvi": felbo.FunctionSpaceELBO(felbo.UniformPrior(10), num_data=500),
    "fvi-3-draws": felbo.FunctionSpaceELBO(felbo.UniformPrior(10), num_data=500, num_samples=3),
    "weight-space": felbo.WeightSpaceELBO(num_data=500),
    "fvi-total": felbo.FunctionSpaceELBO(
        felbo.DirichletPrior([0.5 + 0.25 * k for k in range(10)]), num_data=500, gradient="total"
    ),
    "fvi-enriched": felbo.FunctionSpaceELBO(
        felbo.UniformPrior(10),
        num_data=500,
        measurement=felbo.measurement.Mixture(
            felbo.measurement.Batch(), felbo.measurement.Augmented(lambda x: 1.0 - x)
        ),
    ),
    "fvi-elsewhere": felbo.FunctionSpaceELBO(
        felbo.UniformPrior(10),
        num_data=500,
        measurement=felbo.measurement.Augmented(lambda x: x.flip(-1)[: len(x) // 2]),
        kl_weight=0.05,
    ),
}


def cases() -> list[tuple[str, str, str]]:
    """Every model with every objective; several draws only where their number is free."""
    free = {"MCDropout", "MeanField", "Radial"}
    pairs = [(m, o) for m in MODELS for o in OBJECTIVES if o != "fvi-3-draws" or m in free]
    narrow = [(m, o, "float32") for m, o in pairs if o in ("fvi", "fvi-3-draws")]
    return [(m, o, "float64") for m, o in pairs] + narrow


def key(model: str, objective: str, precision: str) -> str:
    """Name of a case in the file."""
    return f"{model} {objective}" + (" float32" if precision == "float32" else "")


def run(model_name: str, objective_name: str, precision: str) -> dict[str, list[float]]:
    """Train for fifty steps; return total loss, nll and kl of each, and the weights' norms."""
    dtype = getattr(torch, precision)
    digits = load_digits()
    x = torch.tensor(digits.data[:500] / 16.0, dtype=dtype)
    y = torch.tensor(digits.target[:500])
    felbo.seed_everything(7)
    model = MODELS[model_name](lambda: felbo.networks.mlp(64, (20, 20), 10).to(dtype))
    objective = OBJECTIVES[objective_name]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(STEPS):
        start = 40 * step % 480
        loss = objective(model, x[start : start + 40], y[start : start + 40])
        loss.total.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append([value.item() for value in loss])
    total, nll, kl = (list(column) for column in zip(*losses, strict=True))
    norms = [float(p.detach().square().sum()) for p in model.parameters()]
    return {"total": total, "nll": nll, "kl": kl, "squared_norms": sorted(norms)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    FILE.write_text(json.dumps({key(*case): run(*case) for case in cases()}, indent=0))
