"""Fifty float64 training steps per model: the numbers that no optimisation may change.

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
}


def cases() -> list[tuple[str, str]]:
    """Every model with every objective; several draws only where their number is free."""
    free = {"MCDropout", "MeanField", "Radial"}
    return [(m, o) for m in MODELS for o in OBJECTIVES if o != "fvi-3-draws" or m in free]


def run(model_name: str, objective_name: str) -> dict[str, list[float]]:
    """Train for fifty steps; return total loss, nll and kl of each, and the weights' norms."""
    digits = load_digits()
    x = torch.tensor(digits.data[:500] / 16.0)
    y = torch.tensor(digits.target[:500])
    felbo.seed_everything(7)
    model = MODELS[model_name](lambda: felbo.networks.mlp(64, (20, 20), 10).double())
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
    FILE.write_text(json.dumps({f"{m} {o}": run(m, o) for m, o in cases()}, indent=0))
