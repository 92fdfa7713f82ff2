"""What each part of a mixture of points elsewhere costs on the data.

The parts of :class:`felbo.measurement.Elsewhere` were chosen by this study: with each set added to
the recommended mixture or left out of it, at the default strength, on a fifth of the training data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import felbo
from felbo.measurement import (
    Beyond,
    Box,
    Elsewhere,
    MeasurementSet,
    Mosaic,
    RandomConvolution,
    ShuffledColumns,
    image_parts,
    table_parts,
)
from felbo.objectives.everywhere import DATA_STRENGTH, STRENGTH
from felbo.paper.results import Observation, Summary
from felbo.paper.study import Claim, Preset, Study
from felbo.report.style import PALETTE, new_figure, save
from felbo.studies.strengths import GREY, IMAGES, TABLES, data_of, model_of

RECOMMENDED = "recommended"


def image_mixtures() -> dict[str, list[MeasurementSet]]:
    """Return the recommended parts for images, and these with one set more or less."""
    parts = image_parts()
    more: list[MeasurementSet] = [RandomConvolution(), Mosaic()]
    return {
        RECOMMENDED: parts,
        **{f"with {type(extra).__name__}": [*parts, extra] for extra in more},
        **{
            f"without {type(left).__name__}": [part for part in parts if part is not left]
            for left in parts
        },
    }


def table_mixtures() -> dict[str, list[MeasurementSet]]:
    """Return the recommended parts for tables, and other choices."""
    return {
        RECOMMENDED: table_parts(),
        "with ShuffledColumns": [*table_parts(), ShuffledColumns()],
        "without Beyond": [Box()],
        "without Box": [Beyond()],
        "nearer Beyond": [Box(), Box(), Beyond(0.0, 1.0)],
    }


MIXTURES = {
    **{f"{name}, {mixture}": (name, mixture) for name in GREY for mixture in image_mixtures()},
    **{f"{name}, {mixture}": (name, mixture) for name in TABLES for mixture in table_mixtures()},
}


def run(name: str, seed: int, settings: Mapping[str, Any]) -> list[Observation]:
    """Train with cross-entropy and with one mixture; the seed decides which fifth is held out."""
    dataset, mixture = MIXTURES[name]
    large = dataset in IMAGES
    parts = (image_mixtures if large else table_mixtures)()[mixture]
    x, y = data_of(dataset, settings["train_size"])
    choice = felbo.choose_strength(
        partial(model_of, dataset, x, int(y.max()) + 1),
        (x, y),
        strengths=(settings["strength"],),
        data_strength=settings["data_strength"],
        measurement=Elsewhere(parts),
        epochs=settings["epochs" if large else "small_epochs"],
        batch_size=256 if large else 32,
        learning_rate=1e-3,
        seed=seed,
    )
    return [
        Observation(metric, 0.0, getattr(choice.trials[-1], metric))
        for metric in ("nats", "points", "ece", "auroc")
    ]


def claims(summaries: Sequence[Summary]) -> list[Claim]:
    """Say what the recommended mixture costs on each data set."""
    value = {(s.metric, s.model): s.mean for s in summaries}
    found = []
    for dataset in (*IMAGES, *TABLES):
        name = f"{dataset}, {RECOMMENDED}"
        if ("nats", name) in value:
            nats, points = value["nats", name], value["points", name]
            text = f"{dataset}: the recommended points cost {nats:+.3f} nats, {points:+.2f} points"
            found.append(Claim(text, nats <= 0.02 and points <= 0.3))
    return found


def draw(summaries: Sequence[Summary], stem: str) -> None:
    """Draw the price of every mixture as bars, one colour per data set."""
    shown = [s for s in summaries if s.metric == "nats"]
    datasets = [name for name in (*IMAGES, *TABLES) if any(s.model.startswith(name) for s in shown)]
    figure, axes = new_figure(figsize=(7.0, 0.26 * len(shown) + 1.0), layout="constrained")
    for place, summary in enumerate(shown):
        colour = PALETTE[datasets.index(MIXTURES[summary.model][0]) % len(PALETTE)]
        axes.barh(place, summary.mean, xerr=summary.standard_error, color=colour)
    axes.set_yticks(range(len(shown)), [s.model for s in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_xlabel("log-likelihood lost on held-out data (nats)")
    save(figure, stem)


def _settings(size: int, epochs: int, small_epochs: int) -> dict[str, Any]:
    return {
        "train_size": size,
        "epochs": epochs,
        "small_epochs": small_epochs,
        "strength": STRENGTH,
        "data_strength": DATA_STRENGTH,
    }


STUDY = Study(
    name="parts-elsewhere",
    title="What each part of the points elsewhere costs",
    models={name: 10.0 if dataset in IMAGES else 1.0 for name, (dataset, _) in MIXTURES.items()},
    presets={
        "smoke": Preset(1, _settings(1000, 1, 2)),
        "cpu": Preset(2, _settings(20000, 10, 100)),
        "paper": Preset(5, _settings(60000, 30, 100)),
    },
    run=run,
    draw=draw,
    claims=claims,
    data=("mnist", "fashion-mnist"),
)
