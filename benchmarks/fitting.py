"""The Dirichlet fit against a plain Newton loop and against the `dirichlet` package."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.timing import Row, compare, quartiles
from felbo import dirichlet

ITEMS, DRAWS, CLASSES = 10_000, 10, 10
CAP = 60_000.0


def newton_loop(probs: Tensor, limit: int, tolerance: float = 1e-5) -> tuple[Tensor, int]:
    """Run the iteration of the paper on the whole batch until every item has converged.

    Returns:
        Precision ``[S]``, clamped to [K, N] at the end, and the number of iterations.
    """
    draws = probs.double()
    mean, mean_log = draws.mean(0), draws.log().mean(0)
    gap = (mean * (mean_log - mean.log())).sum(-1)
    z = (mean.shape[-1] - 1) / (-2 * gap)
    constant = (mean * mean_log).sum(-1)
    iterations = 0
    while iterations < limit:
        iterations += 1
        alpha = z.unsqueeze(-1) * mean
        slope = torch.digamma(z) - (mean * torch.digamma(alpha)).sum(-1) + constant
        bend = torch.polygamma(1, z) - (mean.square() * torch.polygamma(1, alpha)).sum(-1)
        new = 1 / (1 / z + slope / bend / z.square())
        settled = (new - z).abs().max() < tolerance
        z = new
        if settled:
            break
    return z.clamp(CLASSES, CAP), iterations


def ordinary() -> Tensor:
    """Draws of a moderately confident model, smoothed as in training."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(ITEMS, CLASSES, generator=generator) * 2
    noise = torch.randn(DRAWS, ITEMS, CLASSES, generator=generator) * 0.5
    return dirichlet.smooth((logits + noise).softmax(-1))


def confident(noise: float) -> Tensor:
    """Draws of a very confident ensemble; float32 softmax, not smoothed."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(ITEMS, CLASSES, generator=generator) * 10
    spread = torch.randn(DRAWS, ITEMS, CLASSES, generator=generator) * noise
    return (logits + spread).softmax(-1)


def rows() -> Iterator[Row]:
    """Measure the Dirichlet fit."""
    probs = ordinary()
    # Renormalised in float64: rows of float32 sum to one only within 1e-7, and large terms of the
    # loop would not cancel.
    exact = probs.double() / probs.double().sum(-1, keepdim=True)
    reference, iterations = newton_loop(exact, 2000)
    fitted = dirichlet.fit(probs, max_precision=CAP)
    error = ((fitted.precision - reference).abs() / reference).max()
    yield compare(
        f"Dirichlet fit, {ITEMS:,} × {DRAWS} draws × {CLASSES} classes, ordinary",
        lambda: dirichlet.fit(probs, max_precision=CAP),
        "plain float64 Newton loop",
        lambda: newton_loop(exact, 2000),
        "≤ 1.0",
        number=3,
        note=f"largest relative difference {error:.1e}; the loop took {iterations} iterations",
    )
    for noise in (1.0, 0.1):
        yield _confident_row(noise)
    yield from _package_row(probs)


def _confident_row(noise: float) -> Row:
    probs = confident(noise)
    fitted = dirichlet.fit(probs, max_precision=CAP)
    ours, loop = [], []
    for _ in range(3):
        start = time.perf_counter()
        dirichlet.fit(probs, max_precision=CAP)
        middle = time.perf_counter()
        result, iterations = newton_loop(probs, 2000)
        ours.append(middle - start)
        loop.append(time.perf_counter() - middle)
    low, ratio, high = quartiles([b / a for a, b in zip(ours, loop, strict=True)])
    state = "all converged" if bool(fitted.converged.all()) else "NOT all converged"
    nan = int(fitted.precision.isnan().sum())
    return Row(
        f"the same, confident ensemble (logits sd 10, noise {noise:g})",
        "the same loop, at most 2,000 iterations",
        "≥ 150",
        ratio,
        low,
        high,
        sorted(ours)[1],
        sorted(loop)[1],
        f"{state}, {nan} NaN; the loop used {iterations} iterations and left "
        f"{int(result.isnan().sum())} NaN",
    )


def _package_row(probs: Tensor, sample: int = 60) -> Iterator[Row]:
    try:
        import dirichlet as package
    except ImportError:
        return
    items = probs[:, :: ITEMS // sample].transpose(0, 1).double().numpy()
    durations, failed = [], 0
    for item in items:
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                package.mle(item)
        except Exception:
            failed += 1
        durations.append(time.perf_counter() - start)
    start = time.perf_counter()
    for _ in range(10):
        fitted = dirichlet.fit(probs, max_precision=CAP)
    ours = (time.perf_counter() - start) / 10 / ITEMS
    low, middle, high = quartiles(durations)
    converged = 100.0 * float(fitted.converged.double().mean())
    yield Row(
        "the same, per input",
        "the `dirichlet` package",
        "≥ 2,000",
        middle / ours,
        low / ours,
        high / ours,
        ours,
        middle,
        f"{converged:.0f} % converged; the package failed on {failed} of {len(items)} inputs",
    )
