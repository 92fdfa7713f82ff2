"""Number of Newton iterations of the Dirichlet fit on predictions of a trained ensemble.

A 10-member function-space ensemble is trained on MNIST; at each test image a Dirichlet is fitted to
its ten smoothed predictions, once by :func:`felbo.dirichlet.fit` and once by the iteration that the
paper prints (Minka's quasi-Newton step in 1/z, without a bracket).

The paper stops "when the step is below 1e-5" without saying in which variable. Both plausible
readings are measured: the relative change of z, and the change of 1/z, the variable in which the
iteration is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

import felbo
from felbo.paper import rotated_mnist
from felbo.paper.results import Observation
from felbo.paper.study import Preset, Study
from felbo.report import draw_counts

LIMIT = 2000
TOLERANCE = 1e-5
# Length of a step from z to w; the iteration ends when it is below the tolerance.
STEPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "plain iteration": lambda z, w: (w - z).abs() / z.abs(),
    "plain iteration, step of 1/z": lambda z, w: (1.0 / w - 1.0 / z).abs(),
}


def plain_iteration(
    draws: Tensor, step: Callable[[Tensor, Tensor], Tensor], limit: int = LIMIT
) -> tuple[Tensor, Tensor, Tensor]:
    """Iterate ``1/z ← 1/z + (Δ₁/Δ₂)/z²`` for draws ``[M, B, K]``, float64, without safeguards.

    ``Δ₁ = ψ(z) − Σ ā ψ(zā) + Σ ā l̄`` and ``Δ₂ = ψ′(z) − Σ ā² ψ′(zā)``, from
    ``z = (K − 1) / (−2 Σ ā (l̄ − log ā))``.

    Args:
        draws: smoothed probabilities.
        step: length of the step from one z to the next.
        limit: maximum number of iterations per item.

    Returns:
        Precision z, number of iterations and whether the last step was below 1e-5, each ``[B]``.
    """
    mean, mean_log = draws.mean(0), draws.log().mean(0)
    z = (draws.shape[-1] - 1) / (-2.0 * (mean * (mean_log - mean.log())).sum(-1))
    iterations = torch.zeros(len(z), dtype=torch.int64)
    active = torch.arange(len(z))
    for _ in range(limit):
        a, l, old = mean[active], mean_log[active], z[active]
        x = old.unsqueeze(-1) * a
        first = old.digamma() - (a * x.digamma()).sum(-1) + (a * l).sum(-1)
        second = torch.polygamma(1, old) - (a.square() * torch.polygamma(1, x)).sum(-1)
        new = 1.0 / (1.0 / old + first / second / old.square())
        z[active] = new
        iterations[active] += 1
        # Negated, so that NaN counts as not converged.
        active = active[~(step(old, new) < TOLERANCE)]
        if len(active) == 0:
            break
    converged = torch.ones(len(z), dtype=torch.bool)
    converged[active] = False
    return z, iterations, converged


@lru_cache(maxsize=1)
def ensemble_draws(
    seed: int, train_size: int, epochs: int, test_size: int, **choices: str
) -> Tensor:
    """Return smoothed predictions ``[10, test_size, 10]``, float64, of a trained ensemble."""
    settings = {"train_size": train_size, "epochs": epochs, **choices}
    model = rotated_mnist.train("Ensemble fVI", seed, settings).eval()
    images, _ = rotated_mnist.test_data(0, test_size)
    with torch.no_grad():
        return felbo.dirichlet.smooth(model(images).double().softmax(-1))


def run(name: str, seed: int, settings: Mapping[str, Any]) -> list[Observation]:
    """Count the iterations of one solver over the test images."""
    draws = ensemble_draws(seed, **settings)
    if name == "felbo":
        fit = felbo.dirichlet.fit(draws, max_precision=settings["train_size"])
        iterations, converged = fit.iterations, fit.converged
    else:
        _, iterations, converged = plain_iteration(draws, STEPS[name])
    counts = iterations.double()
    observations = [
        Observation("mean", 0.0, float(counts.mean())),
        Observation("percentile_95", 0.0, float(counts.quantile(0.95))),
        Observation("percentile_99", 0.0, float(counts.quantile(0.99))),
        Observation("maximum", 0.0, float(counts.max())),
        Observation("converged_share", 0.0, 100.0 * float(converged.double().mean())),
    ]
    for value, items in enumerate(torch.bincount(iterations).tolist()):
        if items > 0:
            observations.append(Observation("items", float(value), float(items)))
    return observations


def _preset(**sizes: int) -> Preset:
    return Preset(1, {**sizes, **rotated_mnist.CHOICES})


STUDY = Study(
    name="newton-iterations",
    title="Iterations of the Dirichlet fit on MNIST test images",
    # The first cell trains the ensemble, the others find its draws in the cache.
    models={"felbo": 10.0, **dict.fromkeys(STEPS, 1.0)},
    presets={
        "smoke": _preset(train_size=2000, epochs=1, test_size=500),
        "cpu": _preset(train_size=60000, epochs=10, test_size=10000),
        "paper": _preset(train_size=60000, epochs=30, test_size=10000),
    },
    run=run,
    data=("mnist",),
    draw=partial(
        draw_counts,
        metric="items",
        xlabel="iterations",
        ylabel="test images",
        title="Iterations of the Dirichlet fit, MNIST test images\n"
        "(published: mean 3.08, 95th percentile 3, 99th 15, maximum 1172)",
    ),
)
