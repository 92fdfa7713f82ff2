"""Numbers that nobody means well with: Dirichlet fits, losses and trainings.

An input is handled if it is refused by a ``FelboError``, or if the result is finite and agrees with
an independent computation: the sign of the derivative on both sides of a fitted precision, by SciPy
in float64, and the loss with 40 digits (``tests/oracle.py``).
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import torch
from tests import oracle
from tests.objectives.free import FreeLogits, inputs
from torch import Tensor

import felbo
from felbo import dirichlet

# Relative error of a fitted precision that the documentation allows, and a little for rounding.
TOLERANCE = 1.1e-4
SMALLEST = {torch.float32: 1.4e-45, torch.float64: 5e-324}
HUGE = (0.0, 1e-300, 1e-38, 1e-8, 1.0, 30.0, 90.0, 700.0, 1e4, 1e30)
BATCH = 100


def fits(count: int, seed: int) -> tuple[int, int]:
    """Return handled and tried Dirichlet fits; print those that were not handled."""
    generator = torch.Generator().manual_seed(seed)
    source = random.Random(seed)
    handled = tried = 0
    while tried < count:
        draws, bad = _draws(source, generator)
        items = draws.shape[1]
        lower = source.choice([None, 1e-3, 1.0])
        upper = source.choice([None, 1e3, 1e6, 1e12])
        tried += items
        try:
            found = dirichlet.fit(draws, min_precision=lower, max_precision=upper)
        except felbo.FelboError as error:
            handled += items * bad
            if not bad:
                print(f"NOT handled: a fit was refused without need: {error}")
            continue
        if bad:
            print(f"NOT handled: a fit of {draws.tolist()} was not refused")
            continue
        ends = (lower or draws.shape[-1], upper or 1e8)
        right = _is_maximum(draws.double().numpy(), found.precision.double().numpy(), *ends)
        right &= found.concentration.isfinite().all(-1).numpy() & found.converged.numpy()
        handled += int(right.sum())
        for item in np.flatnonzero(~right)[:1]:
            print(
                f"NOT handled: fit of {draws[:, item].tolist()} in {ends}: {found.precision[item]}"
            )
    return handled, tried


def _draws(source: random.Random, generator: torch.Generator) -> tuple[Tensor, bool]:
    """Return draws ``[M, 100, K]``: saturated, equal, with zeros; or one item that is none."""
    dtype = source.choice([torch.float32, torch.float64])
    shape = source.choice([2, 3, 10]), BATCH, source.choice([2, 3, 10, 100])
    shared = torch.randn(1, *shape[1:], generator=generator, dtype=torch.float64)
    own = torch.randn(shape, generator=generator, dtype=torch.float64)
    logits = source.choice(HUGE) * shared + source.choice(HUGE) * own
    draws = torch.softmax(logits.clamp(-1e300, 1e300), -1).to(dtype)
    place = tuple(source.randrange(size) for size in shape)
    kind = source.randrange(8)
    if kind == 0:
        draws[place[0]] = draws[place[0]].round()  # zeros, in one draw only
    elif kind == 1:
        draws[..., place[2]] = 0.0
    elif kind == 2:
        draws[..., place[2]] = SMALLEST[dtype]
    elif kind == 3:
        draws[place] = source.choice([math.nan, math.inf, -math.inf, -0.1, 2.0, 1e38])
        return draws[:, place[1] : place[1] + 1], True
    total = draws.sum(-1, keepdim=True)
    return torch.where(total > 0, draws / total, 1 / shape[-1]), False


def _is_maximum(draws: Any, z: Any, lower: float, upper: float) -> Any:
    """Whether each z ``[B]`` is the most likely precision for ``[M, B, K]``, by the derivative."""
    draws = draws / draws.sum(-1, keepdims=True)
    mean = draws.mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = draws / mean
        terms = mean * (ratio - 1 - np.log(ratio)).mean(0)
    spread = np.where(mean > 0, terms, 0.0).sum(-1)

    def derivative(at: Any) -> Any:
        alpha = np.where(mean > 0, at[:, None] * mean, 1.0)
        each = mean * oracle.log_minus_digamma(np.maximum(alpha, 1e-9))
        # −ψ(α) = 1/α + γ near zero, and its product with the mean does not overflow.
        small = mean * (np.log(np.maximum(alpha, 5e-324)) + np.euler_gamma) + 1 / at[:, None]
        each = np.where(alpha < 1e-9, small, each)
        return np.where(mean > 0, each, 0.0).sum(-1) - oracle.log_minus_digamma(at) - spread

    def slack(at: Any) -> Any:
        # Rounding of the three terms, which may cancel.
        return 1e-13 * (np.abs(spread) + 1 / at)

    below, above = np.maximum(z * (1 - TOLERANCE), lower), np.minimum(z * (1 + TOLERANCE), upper)
    rises = (below <= lower) | ~(derivative(below) < -slack(below))
    falls = (above >= upper) | ~(derivative(above) > slack(above))
    inside = (z >= lower * (1 - 1e-6)) & (z <= upper * (1 + 1e-6))
    return np.isfinite(z) & inside & rises & falls


def losses(count: int, seed: int) -> tuple[int, int]:
    """Return handled and tried evaluations of the bound at hostile logits and priors."""
    source = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    handled = 0
    for _ in range(count):
        beta = [source.choice([1e-6, 0.5, 1.0, 20.0, 1e6]) for _ in range(3)]
        scale, apart = source.choice(HUGE), source.choice(HUGE)
        shape = source.choice([1, 2, 4]), 2, 3
        logits = scale * torch.randn((1, *shape[1:]), generator=generator)
        logits = logits + apart * torch.randn(shape, generator=generator)
        bad = source.random() < 0.1
        if bad:
            logits[0, 0, 0] = source.choice([math.nan, math.inf, -math.inf])
        dtype = source.choice([torch.float32, torch.float64])
        handled += _is_right(logits.to(dtype), beta)
    return handled, count


def _is_right(logits: Tensor, beta: list[float]) -> bool:
    """Whether the loss and its gradient are those of the definition, or visibly not finite."""
    model = FreeLogits(logits)
    objective = felbo.FunctionSpaceELBO(felbo.DirichletPrior(beta), 1000, kl_weight=1.0)
    try:
        loss = objective(model, inputs(2), torch.tensor([0, 2]))
        loss.total.backward()
    except felbo.FelboError:
        return True
    if not logits.isfinite().all():
        # Visible in the loss, at which felbo.fit looks.
        return not loss.total.isfinite()
    values, _ = oracle.kl(logits, torch.tensor(beta), 1000.0)
    expected = float(values.mean())
    tolerance = 2e-3 if logits.dtype == torch.float32 else 1e-5
    near = math.isclose(float(loss.kl), expected, rel_tol=tolerance, abs_tol=tolerance)
    good = near and bool(model.logits.grad.isfinite().all())
    if not good:
        print(f"NOT handled: {logits.tolist()} with {beta}: {float(loss.kl)}, not {expected}")
    return good


def trainings(count: int, seed: int) -> tuple[int, int]:
    """Return handled and tried trainings on hostile data and settings."""
    source = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    return sum(_trains(source, generator) for _ in range(count)), count


def _trains(source: random.Random, generator: torch.Generator) -> bool:
    """Whether a training is refused, or ends with finite weights and scores."""
    felbo.seed_everything(0)
    x = source.choice([1.0, 1e-38, 1e10, 3e38]) * torch.randn(12, 2, generator=generator)
    if source.random() < 0.3:
        x[source.randrange(12), 0] = source.choice([math.nan, math.inf, -math.inf, 3e38])
    y = torch.arange(12) % 2
    if source.random() < 0.1:
        y[3] = source.choice([-1, 2, 1 << 40])
    rate = source.choice([1e-3, 1.0, 1e10, 1e38, 1e-300, 0.0, -1.0, math.nan, math.inf])
    clip = source.choice([None, None, 1e-30, 1e30, 0.0, math.nan])
    network = felbo.networks.mlp(2, (4,), 2)
    model = source.choice([felbo.MAP, felbo.MCDropout, felbo.MeanField, felbo.Radial])(network)
    settings = {"epochs": 2, "batch_size": 4, "learning_rate": rate, "clip_norm": clip}
    try:
        objective = felbo.FunctionSpaceELBO(
            felbo.UniformPrior(2), 12, kl_weight=source.choice([0.0, 0.1, 1e30, math.nan])
        )
        history = felbo.fit(model, objective, (x, y), seed=1, progress=False, **settings)
    except felbo.FelboError:
        return True
    except Exception as error:
        print(f"NOT handled: {type(error).__name__}: {error}; {settings}")
        return False
    weights = all(bool(value.isfinite().all()) for value in model.parameters())
    good = weights and all(map(math.isfinite, history.total))
    if not good:
        print(f"NOT handled: weights or scores are not finite; {settings}, {history.total}")
    return good
