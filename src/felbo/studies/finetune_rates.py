"""Which optimiser and rate fine-tuning takes by default, with and without normalisation layers.

The criterion, written before the first run. An optimiser with its highest rate is allowed for a
group of networks (those without normalisation layers, those with batch normalisation, those with
another one) if

- no network of the group diverges: none ends in numbers that are not finite, or loses more than
  0.2 nats or 5 points on held-out data;
- in the mean over the group, fine-tuning costs at most 0.02 nats and 0.3 points against the network
  before it.

Of those allowed, the best is the one with the highest AUROC, in the mean over the group, of
points that fine-tuning does not use: :class:`felbo.measurement.RandomConvolution` and
:class:`felbo.measurement.Mosaic` for images, :class:`felbo.measurement.ShuffledColumns` for tables.
A lower rate is taken if the best is within 0.01 of it: stability matters more. Networks are trained
on four fifths of the training data, fine-tuned on the same and measured on the fifth. No turned and
no negative image, no other data set and no test image is looked at; of the digits, only the first
1,200 are used, which the README trains on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from torch import Tensor
from torch.optim import SGD, Adam

import felbo
from felbo.errors import DivergedError
from felbo.evaluation import detection
from felbo.measurement import Mosaic, RandomConvolution, ShuffledColumns
from felbo.paper.results import Observation, Summary
from felbo.paper.study import Claim, Preset, Study
from felbo.report.style import PALETTE, new_figure, save
from felbo.studies.mixtures import MAX_NATS, MAX_POINTS
from felbo.studies.small_networks import CASES, trained
from felbo.studies.strengths import IMAGES, TABLES
from felbo.training.finetune import BATCH_SIZE, STEPS, one_cycle

DIVERGED_NATS, DIVERGED_POINTS = 0.2, 5.0


def tuned(
    model: felbo.StochasticClassifier,
    train: tuple[Tensor, Tensor],
    optimiser: str,
    rate: float,
    seed: int,
) -> felbo.StochasticClassifier:
    """Return a copy after the 300 steps of :func:`felbo.finetune`, with a given optimiser."""
    copy = deepcopy(model)
    sgd = partial(SGD, lr=rate, momentum=0.9, nesterov=True)
    per_epoch = math.ceil(len(train[0]) / BATCH_SIZE)
    epochs = math.ceil(STEPS / per_epoch)
    prior = felbo.UniformPrior(int(train[1].max()) + 1)
    felbo.fit(
        copy,
        felbo.FunctionSpaceELBO.everywhere(prior, len(train[0])),
        train,
        epochs=epochs,
        batch_size=BATCH_SIZE,
        optimizer=sgd if optimiser == "SGD" else partial(Adam, lr=rate),
        scheduler=partial(one_cycle, steps=epochs * per_epoch),
        scheduler_step="step",
        frozen_norms=True,
        seed=seed,
        progress=False,
    )
    return copy


def run(name: str, seed: int, settings: Mapping[str, Any]) -> list[Observation]:
    """Fine-tune one network in every way; the seed decides which fifth is held out."""
    case = CASES[name]
    model, train, (x, y) = trained(case, seed, settings)
    felbo.seed_everything(seed)
    table = case.data in TABLES
    sets = [ShuffledColumns()] if table else [RandomConvolution(), Mosaic()]
    unforeseen = [points(x) for points in sets]
    before = _measure(model, x, y, unforeseen, seed)
    observations = [Observation(f"before {key}", 0.0, value) for key, value in before.items()]
    for optimiser, rate in settings["ways"]:
        try:
            model_after = tuned(model, train, optimiser, rate, seed)
        except DivergedError:
            observations.append(Observation(f"{optimiser} diverged", rate, 1.0))
            continue
        after = _measure(model_after, x, y, unforeseen, seed)
        values = {
            "diverged": 0.0,
            "nats": before["log_likelihood"] - after["log_likelihood"],
            "points": before["accuracy"] - after["accuracy"],
            "ece": after["ece"] - before["ece"],
            "auroc": after["auroc"] - before["auroc"],
        }
        observations += [
            Observation(f"{optimiser} {key}", rate, value) for key, value in values.items()
        ]
    return observations


def _measure(
    model: felbo.StochasticClassifier, x: Tensor, y: Tensor, unforeseen: list[Tensor], seed: int
) -> dict[str, float]:
    on_data = felbo.predict(model, x, seed=seed)
    scores = felbo.score(on_data, y)
    elsewhere = [felbo.predict(model, points, seed=seed) for points in unforeseen]
    return {
        "log_likelihood": scores.log_likelihood,
        "accuracy": scores.accuracy,
        "ece": scores.ece,
        "auroc": fmean(detection(on_data.total, each.total).auroc for each in elsewhere),
    }


class Offer(NamedTuple):
    """A way to fine-tune a group of networks: means over the group, and its worst networks.

    Networks that ended in numbers that are not finite have no price: ``diverged`` counts them.
    """

    group: str
    optimiser: str
    rate: float
    nats: float
    points: float
    worst_nats: float
    worst_points: float
    auroc: float
    diverged: int

    @property
    def allowed(self) -> bool:
        """Whether the price is within the rule, and no network diverges."""
        near = self.worst_nats <= DIVERGED_NATS and self.worst_points <= DIVERGED_POINTS
        return not self.diverged and near and self.nats <= MAX_NATS and self.points <= MAX_POINTS


def offers(summaries: Sequence[Summary]) -> list[Offer]:
    """Return every way for every group, over the networks of the group that were run."""
    values: dict[tuple[str, str, float, str], list[float]] = {}
    for s in summaries:
        optimiser, metric = s.metric.split(" ")
        key = CASES[s.model].group, optimiser, s.shift, metric
        values.setdefault(key, []).append(s.mean)
    ways = {key[:3]: None for key in values if key[1] != "before"}
    found = []
    for way in ways:
        nats, points, auroc = (
            values.get((*way, metric), [math.nan]) for metric in ("nats", "points", "auroc")
        )
        diverged = sum(share > 0 for share in values[*way, "diverged"])
        price = fmean(nats), fmean(points), max(nats), max(points)
        found.append(Offer(*way, *price, fmean(auroc), diverged))
    return found


def claims(summaries: Sequence[Summary]) -> list[Claim]:
    """Say of every way what it costs and buys, and whether the rule allows it."""
    return [
        Claim(
            f"{o.group}, {o.optimiser} {o.rate:g}: {o.nats:+.3f} nats (worst {o.worst_nats:+.3f}), "
            f"{o.points:+.2f} points (worst {o.worst_points:+.2f}); AUROC {o.auroc:+.3f}; "
            f"{o.diverged} not finite",
            o.allowed,
        )
        for o in offers(summaries)
    ]


def draw(summaries: Sequence[Summary], stem: str) -> None:
    """Draw price against gain of every way, a panel for each group."""
    found = offers(summaries)
    groups = list(dict.fromkeys(offer.group for offer in found))
    figure, panels = new_figure(
        1, len(groups), figsize=(4.0 * len(groups), 3.4), layout="constrained", squeeze=False
    )
    for axes, group in zip(panels[0], groups, strict=True):
        for colour, optimiser in zip(PALETTE, ("SGD", "Adam"), strict=False):
            own = [o for o in found if (o.group, o.optimiser) == (group, optimiser)]
            nats, bought = [o.nats for o in own], [o.auroc for o in own]
            axes.plot(nats, bought, "o-", color=colour, label=optimiser)
            for o in own:
                axes.annotate(f" {o.rate:g}", (o.nats, o.auroc), va="bottom", fontsize=8)
        axes.axvline(MAX_NATS, color="black", linewidth=0.8, linestyle=":")
        axes.set_title(group)
        axes.set_xlabel("log-likelihood lost on held-out data (nats)")
    panels[0][0].set_ylabel("AUROC gained at unforeseen points")
    panels[0][0].legend(frameon=False)
    save(figure, stem)


def _settings(
    size: int, epochs: int, small_epochs: int, *ways: tuple[str, float]
) -> dict[str, Any]:
    return {"train_size": size, "epochs": epochs, "small_epochs": small_epochs, "ways": ways}


WAYS = (
    ("SGD", 0.01),
    ("SGD", 0.03),
    ("SGD", 0.1),
    ("Adam", 0.001),
    ("Adam", 0.003),
    ("Adam", 0.01),
)

STUDY = Study(
    name="finetune-rates",
    title="Optimiser and rate of fine-tuning",
    models={name: 5.0 if case.data in IMAGES else 1.0 for name, case in CASES.items()},
    presets={
        "smoke": Preset(1, _settings(500, 1, 2, ("Adam", 0.003))),
        "cpu": Preset(1, _settings(5000, 15, 60, *WAYS)),
        "paper": Preset(5, _settings(60000, 15, 60, *WAYS)),
    },
    run=run,
    draw=draw,
    claims=claims,
    data=("mnist", "fashion-mnist"),
)
