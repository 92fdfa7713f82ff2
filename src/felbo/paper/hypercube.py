"""Hypercube: how the function-space KL grows with the number of classes, and two remedies.

Inputs are uniform in [−1, 1]⁸; the signs of the first log₂ K coordinates make K classes, and only
1000 inputs are labelled. The KL is measured at 1000 other inputs. Its weight is 1 (unscaled)
or 1 / K (scaled) in one study; in the other the weight is 1 and the prior's concentration varies.

The KL at convergence is the term of the objective, weight included: the published curve of the
scaled series is the KL divided by K.

The paper does not say whether the inputs are redrawn for every K. Here a seed fixes the inputs
(training, measurement, test) and the random stream of the initial weights; only labels and last
layer change with K.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import felbo
from felbo.paper.compare import compare
from felbo.paper.published import published
from felbo.paper.results import Observation, Summary
from felbo.paper.study import Claim, Preset, Study
from felbo.report import draw_curves

Objective = Callable[[felbo.StochasticClassifier, Tensor, Tensor], felbo.Loss]

DIMENSION = 8
CLASSES = tuple(2**k for k in range(1, DIMENSION + 1))
LABELS = {
    "test_log_likelihood": "test log-likelihood (nats)",
    "fkl_at_convergence": "KL term of the objective at the end (nats)",
}


def labels(x: Tensor, classes: int) -> Tensor:
    """Number the orthants of the first log₂ K coordinates of ``x [N, 8]``.

    Example:
        >>> labels(torch.tensor([[-0.5, -0.5], [0.5, -0.5], [-0.5, 0.5]]), classes=4)
        tensor([0, 1, 2])
    """
    used = classes.bit_length() - 1
    powers = 2 ** torch.arange(used)
    return ((x[:, :used] > 0).long() * powers).sum(-1)


def make_data(seed: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw training, measurement and test inputs, each ``[size, 8]``, uniform in [−1, 1]⁸."""
    generator = torch.Generator().manual_seed(seed)
    train, measured, test = 2.0 * torch.rand(3, size, DIMENSION, generator=generator) - 1.0
    return train, measured, test


def make_elbo(name: str, classes: int, points: Tensor, num_data: int) -> felbo.FunctionSpaceELBO:
    """Return the objective of a series ``"MAP fVI …"`` or ``"beta=…"``."""
    concentration = float(name.removeprefix("beta=")) if name.startswith("beta=") else 1.0
    return felbo.FunctionSpaceELBO(
        felbo.DirichletPrior(torch.full((classes,), concentration)),
        num_data=num_data,
        measurement=felbo.measurement.Pool(points),
        kl_weight=1.0 / classes if name.endswith(" scaled") else 1.0,
    )


def without_value(elbo: felbo.FunctionSpaceELBO, points: Tensor) -> Objective:
    """Return an objective with the gradient of ``elbo`` for one draw, at half the cost for K = 256.

    With α = N f held constant, ``Σ (α − β) ∇ log f = N ∇ Σ f − Σ β ∇ log f``, and Σ f = 1. So the
    KL is ``−Σ β log f`` up to a constant, which takes as long as the rest of the step.
    """
    beta = elbo.prior(points).concentration.to(points)
    weight = float(elbo.kl_weight)

    def objective(model: felbo.StochasticClassifier, x: Tensor, y: Tensor) -> felbo.Loss:
        log_probs = F.log_softmax(model(torch.cat([x, points]))[0], dim=-1)
        nll = F.nll_loss(log_probs[: len(x)], y)
        f = felbo.dirichlet.smooth(log_probs[len(x) :].exp(), elbo.smoothing)
        kl = -(f.log() @ beta).mean()
        return felbo.Loss(nll + weight * kl, nll.detach(), kl.detach())

    return objective


def run(name: str, seed: int, settings: Mapping[str, Any]) -> list[Observation]:
    """Train one network per number of classes and measure likelihood and KL."""
    train, points, test = make_data(seed, settings["size"])
    observations = []
    for classes in settings["classes"]:
        felbo.seed_everything(seed)
        model = felbo.MAP(felbo.networks.mlp(DIMENSION, (25, 25), classes))
        data = train, labels(train, classes)
        elbo = None if name == "MAP" else make_elbo(name, classes, points, len(train))
        objective = without_value(elbo, points) if elbo else felbo.NegativeLogLikelihood()
        felbo.fit(
            model,
            objective,
            data,
            epochs=settings["epochs"],
            batch_size=None,
            learning_rate=5e-3,
            progress=False,
        )
        scores = felbo.score(felbo.predict(model, test).probs, labels(test, classes))
        likelihood = scores.log_likelihood
        observations.append(Observation("test_log_likelihood", float(classes), likelihood))
        if elbo:
            with torch.no_grad():
                loss = elbo(model, *data)
            term = float(loss.total - loss.nll)
            observations.append(Observation("fkl_at_convergence", float(classes), term))
    return observations


def claims(summaries: Sequence[Summary]) -> list[Claim]:
    """Check that every curve stays within the published two-deviation bands, widened by 20 %."""
    curves: dict[tuple[str, str], list[bool]] = {}
    for cell in compare(summaries):
        curves.setdefault((cell.measured.metric, cell.measured.model), []).append(cell.agrees)
    return [
        Claim(
            f"{model}: {metric.replace('_', ' ')} within the published band "
            f"({sum(inside)} of {len(inside)} numbers of classes)",
            all(inside),
        )
        for (metric, model), inside in curves.items()
    ]


def _study(name: str, title: str, series: Sequence[str], metrics: Sequence[str]) -> Study:
    full = {"size": 1000, "classes": CLASSES, "epochs": 3000}
    return Study(
        name=name,
        title=title,
        models={model: 1.0 if model == "MAP" else 2.5 for model in series},
        presets={
            "smoke": Preset(1, {"size": 200, "classes": (2, 8, 32), "epochs": 100}),
            "cpu": Preset(3, {**full, "epochs": 1000}),
            "paper": Preset(10, full),
        },
        run=run,
        draw=partial(
            draw_curves,
            metrics=metrics,
            xlabel="classes K",
            xscale="log",
            log_metrics=("fkl_at_convergence",),
            title=title,
            labels=LABELS,
            published=published(name.replace("-", "_")),
        ),
        claims=claims,
    )


HYPERCUBE = _study(
    "hypercube",
    "Hypercube: weight of the KL",
    ("MAP", "MAP fVI unscaled", "MAP fVI scaled"),
    ("test_log_likelihood", "fkl_at_convergence"),
)
BETAS = _study(
    "hypercube-betas",
    "Hypercube: concentration of the prior",
    ("MAP", *(f"beta={beta}" for beta in ("0.1", "0.5", "1", "5", "10"))),
    ("test_log_likelihood",),
)
