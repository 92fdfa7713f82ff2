"""Which points elsewhere and which strength for images: price on the data against what it buys.

The criterion (docs/elsewhere.md says how it was kept). A mixture may be as strong as the rule of
:mod:`felbo.studies.strengths` allows: it costs at most 0.02 nats and 0.3 points in the mean over
the data sets. Of the mixtures and strengths that it allows, the best is the one with the highest
log-likelihood at points that none of them is made of, :class:`felbo.measurement.RandomConvolution`
and :class:`felbo.measurement.Mosaic`, with the labels of the images that the points come from.
Everything is measured on a fifth of the training data; no rotated image, no other data set and no
test image is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import torch

import felbo
from felbo.measurement import (
    Elsewhere,
    MeasurementSet,
    Mosaic,
    RandomConvolution,
    WorstCase,
    image_parts,
)
from felbo.objectives.everywhere import DATA_STRENGTH
from felbo.paper.results import Observation, Summary
from felbo.paper.study import Claim, Preset, Study
from felbo.report.style import PALETTE, new_figure, save
from felbo.studies.strengths import GREY, IMAGES, data_of, model_of

NONE = "cross-entropy"
DATASETS = (*GREY, "digits")
MAX_NATS, MAX_POINTS = 0.02, 0.3


def mixtures() -> dict[str, list[MeasurementSet]]:
    """Return the mixtures that are compared."""
    return {
        "recommended": image_parts(),
        "with WorstCase": [*image_parts(), WorstCase()],
        "with farther WorstCase": [*image_parts(), WorstCase(size=0.6)],
    }


MODELS = {f"{data}: {mixture}": (data, mixture) for data in DATASETS for mixture in mixtures()}
MODELS |= {f"{data}: {NONE}": (data, NONE) for data in DATASETS}


def run(name: str, seed: int, settings: Mapping[str, Any]) -> list[Observation]:
    """Train with one mixture at every strength; the seed decides which fifth is held out."""
    dataset, mixture = MODELS[name]
    x, y = data_of(dataset, settings["train_size"])
    felbo.seed_everything(seed)
    order = torch.randperm(len(x))
    held, kept = order[: len(x) // 5], order[len(x) // 5 :]
    unforeseen = [make(x[held]) for make in (RandomConvolution(), Mosaic())]
    observations = []
    for strength in settings["strengths"] if mixture != NONE else (0.0,):
        felbo.seed_everything(seed)
        model = model_of(dataset, x, int(y.max()) + 1)
        objective: felbo.Objective = felbo.NegativeLogLikelihood()
        if strength:
            prior = felbo.UniformPrior(int(y.max()) + 1)
            points = Elsewhere(mixtures()[mixture])
            objective = felbo.FunctionSpaceELBO.everywhere(
                prior, len(kept), strength, settings["data_strength"], points
            )
        felbo.fit(
            model,
            objective,
            (x[kept], y[kept]),
            epochs=settings["epochs" if dataset in IMAGES else "small_epochs"],
            batch_size=256 if dataset in IMAGES else 32,
            learning_rate=1e-3,
            seed=seed,
            progress=False,
        )
        scores = felbo.score(felbo.predict(model, x[held], seed=seed), y[held])
        bought = [felbo.score(felbo.predict(model, each), y[held]) for each in unforeseen]
        values = {
            "log_likelihood": scores.log_likelihood,
            "accuracy": scores.accuracy,
            "ece": scores.ece,
            "unforeseen": fmean(each.log_likelihood for each in bought),
        }
        observations += [Observation(metric, strength, value) for metric, value in values.items()]
    return observations


class Offer(NamedTuple):
    """A mixture at a strength: price on held-out data and log-likelihood at unforeseen points."""

    mixture: str
    strength: float
    nats: float
    points: float
    unforeseen: float

    @property
    def allowed(self) -> bool:
        """Whether the price is within the rule."""
        return self.nats <= MAX_NATS and self.points <= MAX_POINTS


def offers(summaries: Sequence[Summary]) -> list[Offer]:
    """Return the mean over the data sets of every mixture and strength that ran on all of them."""
    value = {(s.metric, *MODELS[s.model], s.shift): s.mean for s in summaries}
    strengths = sorted({s.shift for s in summaries if s.shift > 0})
    found = []
    for mixture in mixtures():
        for strength in strengths:
            if any(("ece", data, mixture, strength) not in value for data in DATASETS) or any(
                ("ece", data, NONE, 0.0) not in value for data in DATASETS
            ):
                continue
            nats, points = (
                fmean(
                    value[metric, data, NONE, 0.0] - value[metric, data, mixture, strength]
                    for data in DATASETS
                )
                for metric in ("log_likelihood", "accuracy")
            )
            bought = fmean(value["unforeseen", data, mixture, strength] for data in DATASETS)
            found.append(Offer(mixture, strength, nats, points, bought))
    return found


def claims(summaries: Sequence[Summary]) -> list[Claim]:
    """Say of every mixture and strength what it costs and buys, and whether the rule allows it."""
    return [
        Claim(
            f"{o.mixture}, strength {o.strength:g}: {o.nats:+.3f} nats, {o.points:+.2f} points; "
            f"unforeseen points {o.unforeseen:.3f}",
            o.allowed,
        )
        for o in offers(summaries)
    ]


def draw(summaries: Sequence[Summary], stem: str) -> None:
    """Draw the price of every offer against what it buys, with the limit of the rule."""
    figure, axes = new_figure(figsize=(6.0, 3.6), layout="constrained")
    found = offers(summaries)
    for colour, mixture in zip(PALETTE, mixtures(), strict=False):
        own = [offer for offer in found if offer.mixture == mixture]
        nats, bought = [o.nats for o in own], [o.unforeseen for o in own]
        axes.plot(nats, bought, "o-", color=colour, label=mixture)
        for offer in own:
            axes.annotate(
                f" {offer.strength:g}", (offer.nats, offer.unforeseen), va="bottom", fontsize=8
            )
    axes.axvline(MAX_NATS, color="black", linewidth=0.8, linestyle=":")
    axes.set_xlabel("log-likelihood lost on held-out data (nats)")
    axes.set_ylabel("log-likelihood at unforeseen points")
    axes.legend(frameon=False)
    save(figure, stem)


def _settings(size: int, epochs: int, small_epochs: int, *strengths: float) -> dict[str, Any]:
    return {
        "train_size": size,
        "epochs": epochs,
        "small_epochs": small_epochs,
        "strengths": strengths,
        "data_strength": DATA_STRENGTH,
    }


STUDY = Study(
    name="mixtures-elsewhere",
    title="Points elsewhere for images",
    models={name: 10.0 if data in IMAGES else 1.0 for name, (data, _) in MODELS.items()},
    presets={
        "smoke": Preset(1, _settings(1000, 1, 2, 0.03)),
        "cpu": Preset(1, _settings(60000, 10, 100, 0.03, 0.1)),
        "paper": Preset(2, _settings(60000, 30, 100, 0.03, 0.05, 0.07, 0.1)),
    },
    run=run,
    draw=draw,
    claims=claims,
    data=("mnist", "fashion-mnist"),
)
