"""Which points elsewhere cost what: every measurement set for images by itself, on MNIST.

Measured on a fifth of the training images, like the strengths. The parts of
:class:`felbo.measurement.Elsewhere` are those that cost little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import felbo
from felbo.evaluation import detection
from felbo.measurement import Elsewhere, MeasurementSet, Mosaic, image_parts
from felbo.objectives.everywhere import DATA_STRENGTH
from felbo.paper.results import Observation, Summary
from felbo.paper.rotated_mnist import build
from felbo.paper.study import Preset, Study
from felbo.report import draw_curves
from felbo.report.style import PALETTE
from felbo.studies.strengths import data_of

SETS: dict[str, MeasurementSet] = {
    type(part).__name__: part for part in (*image_parts(), Mosaic(), Elsewhere())
}
LABELS = {
    "nats": "log-likelihood lost (nats)",
    "points": "accuracy lost (%)",
    "others": "AUROC of the points of all sets",
}


def run(name: str, seed: int, settings: Mapping[str, Any]) -> list[Observation]:
    """Measure what one set costs, and whether points of all sets are recognised.

    ``auroc`` is for points of the set itself, ``others`` for points of all sets together.
    """
    x, y = data_of("MNIST", settings["train_size"])
    kept: list[felbo.StochasticClassifier] = []

    def make() -> felbo.StochasticClassifier:
        kept.append(build("MAP", "glorot", "hidden"))
        return kept[-1]

    count = len(x) // 5
    choice = felbo.choose_strength(
        make,
        (x[count:], y[count:]),
        strengths=settings["strengths"],
        data_strength=DATA_STRENGTH,
        measurement=SETS[name],
        validation=(x[:count], y[:count]),
        epochs=settings["epochs"],
        batch_size=256,
        seed=seed,
    )
    felbo.seed_everything(seed)
    everything = Elsewhere([part for part in SETS.values() if not isinstance(part, Elsewhere)])
    points = everything(x[:count])
    observations = []
    # The first model that was made told the type of its weights and was not trained.
    for trial, model in zip(choice.trials, kept[1:], strict=True):
        inside, outside = (felbo.predict(model, part) for part in (x[:count], points))
        others = detection(inside.total, outside.total).auroc
        values = {**trial._asdict(), "others": others}
        observations += [
            Observation(metric, trial.strength, values[metric])
            for metric in ("accuracy", "log_likelihood", "ece", "nats", "points", "auroc", "others")
        ]
    return observations


def draw(summaries: Sequence[Summary], stem: str) -> None:
    """Draw what each set costs and buys over its strength."""
    draw_curves(
        [s for s in summaries if s.shift > 0],
        stem,
        metrics=tuple(LABELS),
        xlabel="strength of the prior at the points",
        title="Points of one set alone, MNIST (validation images)",
        xscale="log",
        labels=LABELS,
        styles=styles,
    )


def styles(models: Sequence[str]) -> dict[str, dict[str, str]]:
    """Give each set a colour; there are more sets than colours, so every other line is dashed."""
    lines = ("-", "--")
    return {
        name: {"color": PALETTE[place // 2], "linestyle": lines[place % 2]}
        for place, name in enumerate(models)
    }


def _preset(seeds: int, train_size: int, epochs: int, strengths: tuple[float, ...]) -> Preset:
    return Preset(seeds, {"train_size": train_size, "epochs": epochs, "strengths": strengths})


STUDY = Study(
    name="sets-mnist",
    title="Sets of points elsewhere, MNIST",
    models=dict.fromkeys(SETS, 1.0),
    presets={
        "smoke": _preset(1, 1000, 1, (0.03,)),
        "cpu": _preset(1, 20000, 10, (0.03, 0.1)),
        "paper": _preset(3, 60000, 30, (0.01, 0.03, 0.1)),
    },
    run=run,
    draw=draw,
    data=("mnist",),
)
