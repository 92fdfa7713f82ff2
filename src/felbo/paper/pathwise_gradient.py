"""Pathwise gradient: variance reduction by holding the concentration constant in log q.

A Dirichlet q = Dir(α) in 100 dimensions is fitted to a target p = Dir(β) by descent on the
Monte-Carlo estimate ``mean over draws of [log q(f) − log p(f)]`` with reparameterised draws f ~ q.

- *total*: the gradient goes through the draws and through α in log q;
- *pathwise*: α is constant in log q. The omitted part has mean zero, and the remaining gradient
  vanishes at q = p for every single draw (Roeder, Wu and Duvenaud 2017, "Sticking the landing");
- *pathwise, fitted*: α in log q is replaced by the concentration fitted to the draws themselves, as
  in the function-space KL, where the density of a network's draws is unknown.

The curve is the exact divergence KL[q ‖ p]. The paper gives neither the target nor the optimiser.
Chosen here: β_k uniform in [1, 10], redrawn for each seed; initially the uniform distribution,
α = 1; Adam on log α with a step size of 0.01; 5 draws in each step for all three, as many as the
fit of the third has; 3000 steps, after which every curve is flat or changes at a steady rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Dirichlet

import felbo
from felbo.paper.results import Observation
from felbo.paper.study import Preset, Study
from felbo.report import draw_percentiles

CLASSES = 100
DRAWS = 5
LEARNING_RATE = 0.01
# The closed form of the KL is a difference of numbers near 10³, accurate to 1e-12.
SMALLEST = 1e-12


def make_target(seed: int) -> Tensor:
    """Draw β ``[100]`` with β_k uniform in [1, 10], float64."""
    generator = torch.Generator().manual_seed(seed)
    return 1.0 + 9.0 * torch.rand(CLASSES, generator=generator, dtype=torch.float64)


def log10_divergence(alpha: Tensor, beta: Tensor) -> float:
    """Return log₁₀ KL[Dir(α) ‖ Dir(β)], at least −12."""
    return math.log10(max(float(felbo.dirichlet.kl_divergence(alpha, beta)), SMALLEST))


def estimate(name: str, alpha: Tensor, beta: Tensor) -> Tensor:
    """Return the Monte-Carlo KL, with the gradient of the named series."""
    draws = Dirichlet(alpha, validate_args=False).rsample(torch.Size([DRAWS]))
    in_density = alpha
    if name == "pathwise":
        in_density = alpha.detach()
    elif name == "pathwise, fitted":
        in_density = felbo.dirichlet.fit(draws.detach()).concentration
    log_q = felbo.dirichlet.log_prob(draws, in_density)
    return (log_q - felbo.dirichlet.log_prob(draws, beta)).mean()


def run(name: str, seed: int, settings: Mapping[str, Any]) -> list[Observation]:
    """Descend from α = 1 and record the exact divergence."""
    beta = make_target(seed)
    felbo.seed_everything(seed)
    log_alpha = torch.zeros(CLASSES, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([log_alpha], lr=LEARNING_RATE)
    observations = []
    for step in range(settings["steps"] + 1):
        if step > 0:
            optimizer.zero_grad()
            estimate(name, log_alpha.exp(), beta).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if step % settings["every"] == 0:
            value = log10_divergence(log_alpha.detach().exp(), beta)
            observations.append(Observation("log10_kl", float(step), value))
    return observations


STUDY = Study(
    name="pathwise-gradient",
    title="Pathwise gradient: 100-dimensional Dirichlet fitted to a target",
    models={"total": 1.0, "pathwise": 1.0, "pathwise, fitted": 1.2},
    presets={
        "smoke": Preset(2, {"steps": 100, "every": 10}),
        "cpu": Preset(10, {"steps": 3000, "every": 30}),
        "paper": Preset(50, {"steps": 3000, "every": 30}),
    },
    run=run,
    draw=partial(
        draw_percentiles,
        metric="log10_kl",
        ylabel="KL[q ‖ p] (nats)",
        title="Pathwise gradient",
    ),
)
