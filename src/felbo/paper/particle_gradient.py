"""Particle gradient: effect of the gradient through the Dirichlet fit.

M = 5 points f on the 100-dimensional simplex, the softmax of free logits, are moved towards a
target p = Dir(β), with α fitted to the points.

- *partial*: descent on the function-space KL ``mean over points of [log Dir(f | α) − log p(f)]``
  with α held constant;
- *total*: the same, with the derivative through the fit by the implicit function theorem;
- *total, closed form*: descent on KL[Dir(α) ‖ p] in closed form, through the fit. It has no partial
  counterpart, since the points enter through α alone;
- *full fit*: descent on the function-space KL with all of α fitted by maximum likelihood, not only
  its precision, as in the paper. There the derivative through α vanishes (total and partial
  gradient are equal), and the function-space KL is KL[Dir(α) ‖ p] itself.

The curve is the closed-form KL of the fitted α, over steps and over the processor time of the steps
without the measurements; the function-space KL, which can be negative, is recorded as ``estimate``.
The paper gives neither the target nor the optimiser. Chosen here: β_k uniform in [1, 10], redrawn
for each seed; standard normal initial logits; Adam with a step size of 0.01, 1000 steps; no
smoothing; precisions capped at 10⁴ (except for the full fit).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

import felbo
from felbo.paper.pathwise_gradient import CLASSES, log10_divergence, make_target
from felbo.paper.results import Observation
from felbo.paper.study import Preset, Study
from felbo.report import draw_percentiles

POINTS = 5
LEARNING_RATE = 0.01
MAX_PRECISION = 10_000


def make_objective(name: str, beta: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the function of the logits ``[5, 100]`` that a series minimises."""

    def closed_form(logits: Tensor) -> Tensor:
        fit = felbo.dirichlet.fit(
            logits.softmax(-1), max_precision=MAX_PRECISION, differentiable=True
        )
        return felbo.dirichlet.kl_divergence(fit.concentration, beta)

    def full_fit(logits: Tensor) -> Tensor:
        probs = logits.softmax(-1)
        alpha = felbo.dirichlet.fit(probs, mean="free").concentration
        density = felbo.dirichlet.log_prob
        return (density(probs, alpha) - density(probs, beta)).mean()

    if name == "total, closed form":
        return closed_form
    if name == "full fit":
        return full_fit
    elbo = felbo.FunctionSpaceELBO(
        felbo.DirichletPrior(beta),
        num_data=MAX_PRECISION,
        gradient="total" if name == "total" else "partial",
        smoothing=0.0,
    )
    # The prior does not depend on the input, so any input can be passed.
    place = torch.zeros(1, 1)
    return lambda logits: elbo.divergence(logits.unsqueeze(1), place).squeeze(0)


def measure(
    name: str, step: int, seconds: float, logits: Tensor, beta: Tensor
) -> list[Observation]:
    """Return divergence of the fitted Dirichlet, function-space KL and time after a step."""
    probs = logits.detach().softmax(-1)
    full = name == "full fit"
    fitted = (
        felbo.dirichlet.fit(probs, mean="free")
        if full
        else felbo.dirichlet.fit(probs, max_precision=MAX_PRECISION)
    )
    alpha = fitted.concentration
    estimate = float(make_objective(name if full else "partial", beta)(logits.detach()))
    return [
        Observation("log10_kl", float(step), log10_divergence(alpha, beta)),
        Observation("estimate", float(step), estimate),
        Observation("seconds", float(step), seconds),
    ]


def run(name: str, seed: int, settings: Mapping[str, Any]) -> list[Observation]:
    """Move the points and record divergence and time."""
    beta = make_target(seed)
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(POINTS, CLASSES, generator=generator, dtype=torch.float64)
    logits.requires_grad_()
    objective = make_objective(name, beta)
    optimizer = torch.optim.Adam([logits], lr=LEARNING_RATE)
    observations, seconds = measure(name, 0, 0.0, logits, beta), 0.0
    for step in range(1, settings["steps"] + 1):
        start = time.process_time()  # that of the clock would count other programs
        optimizer.zero_grad()
        objective(logits).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        seconds += time.process_time() - start
        if step % settings["every"] == 0:
            observations += measure(name, step, seconds, logits, beta)
    return observations


STUDY = Study(
    name="particle-gradient",
    title="Particle gradient: 5 points moved to a 100-dimensional Dirichlet",
    models={"partial": 1.0, "total": 1.3, "total, closed form": 1.3, "full fit": 4.0},
    presets={
        "smoke": Preset(2, {"steps": 100, "every": 10}),
        "cpu": Preset(10, {"steps": 1000, "every": 10}),
        "paper": Preset(50, {"steps": 1000, "every": 40}),
    },
    run=run,
    draw=partial(
        draw_percentiles,
        metric="log10_kl",
        ylabel="KL[Dir(α) ‖ p] (nats)",
        title="Particle gradient",
        clock="seconds",
    ),
)
