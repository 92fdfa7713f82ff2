"""Small tables: are inputs far outside the data recognised, and what does that cost on them?

Five-fold cross-validation of an ensemble of five perceptrons. Rows far outside are those of the
held-out fold with every column moved by five standard deviations, up and down, or times ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

import felbo
from felbo.evaluation import detection
from felbo.objectives.everywhere import DATA_STRENGTH, STRENGTH
from felbo.paper.results import Observation, Summary
from felbo.paper.study import Claim, Preset, Study
from felbo.report.style import PALETTE, new_figure, save
from felbo.studies.strengths import TABLES as SWEPT
from felbo.studies.strengths import data_of

# digits by their 64 pixels: the sweep of strengths takes them for images.
TABLES = (*SWEPT, "digits")
WAYS = ("", "fVI", "everywhere")
METRICS = ("log_likelihood", "auroc_moved", "auroc_times_ten")
LABELS = ("log-likelihood (nats)", "AUROC, moved by ±5 sd", "AUROC, times 10")


def rows_of(name: str) -> tuple[Tensor, Tensor]:
    """Return standardised rows ``[N, D]`` and labels; constant columns are zero."""
    x, y = data_of(name, 0)
    x = x.flatten(1)
    deviation = x.std(0)
    return (x - x.mean(0)) / torch.where(deviation > 0, deviation, 1.0), y


def fold(name: str, seed: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return the data to train on and the fold number ``seed`` to test on."""
    x, y = rows_of(name)
    splits = StratifiedKFold(5, shuffle=True, random_state=0).split(x.numpy(), y.numpy())
    train, test = (torch.tensor(index) for index in list(splits)[seed % 5])
    return (x[train], y[train]), (x[test], y[test])


def objective(
    way: str, classes: int, num_data: int, settings: Mapping[str, Any]
) -> felbo.Objective:
    """Return what is minimised."""
    prior = felbo.UniformPrior(classes)
    if way == "everywhere":
        strengths = settings["strength"], settings["data_strength"]
        return felbo.FunctionSpaceELBO.everywhere(prior, num_data, *strengths)
    return felbo.FunctionSpaceELBO(prior, num_data) if way else felbo.NegativeLogLikelihood()


def run(name: str, seed: int, settings: Mapping[str, Any]) -> list[Observation]:
    """Train on four folds and measure on the fifth, and far from it."""
    table = next(table for table in TABLES if name.startswith(table))
    train, (x, y) = fold(table, seed)
    classes = int(train[1].max()) + 1
    felbo.seed_everything(seed)
    model = felbo.Ensemble(lambda: felbo.networks.mlp(x.shape[1], (50, 50), classes), members=5)
    felbo.fit(
        model,
        objective(name.removeprefix(table).strip(), classes, len(train[0]), settings),
        train,
        epochs=settings["epochs"],
        batch_size=32,
        learning_rate=1e-3,
        seed=seed,
        progress=False,
    )
    inside = felbo.predict(model, x)
    scores = felbo.score(inside, y)
    moved, times_ten = (felbo.predict(model, far) for far in (torch.cat([x + 5, x - 5]), 10 * x))
    return [
        *(Observation(m, 0.0, getattr(scores, m)) for m in ("accuracy", "log_likelihood", "ece")),
        Observation("auroc_moved", 0.0, detection(inside.total, moved.total).auroc),
        Observation("auroc_times_ten", 0.0, detection(inside.total, times_ten.total).auroc),
    ]


def claims(summaries: Sequence[Summary]) -> list[Claim]:
    """Check that far inputs are recognised and that the data pay little for it."""
    value = {(s.metric, s.model): s.mean for s in summaries}
    found = []
    for table in TABLES:
        ours = f"{table} everywhere"
        if not all(("ece", name) in value for name in (table, ours)):
            continue
        lost = value["log_likelihood", table] - value["log_likelihood", ours]
        found.append(Claim(f"{table}: it costs at most 0.05 nats ({lost:+.3f})", lost <= 0.05))
        for metric, label in zip(METRICS[1:], LABELS[1:], strict=True):
            seen = value[metric, ours]
            found.append(Claim(f"{table}: {label} {seen:.3f}, at least 0.95", seen >= 0.95))
    return found


def draw(summaries: Sequence[Summary], stem: str) -> None:
    """Draw bars, one group per table and one colour per way of training."""
    figure, axes = new_figure(1, len(METRICS), figsize=(12.0, 3.8))
    value = {(s.metric, s.model): s for s in summaries}
    for axis, metric, label in zip(axes, METRICS, LABELS, strict=True):
        for place, (way, colour) in enumerate(zip(WAYS, PALETTE, strict=False)):
            found = [value.get((metric, f"{table} {way}".strip())) for table in TABLES]
            at = [k + 0.27 * (place - 1) for k, summary in enumerate(found) if summary]
            heights = [summary.mean for summary in found if summary]
            axis.bar(at, heights, 0.25, color=colour, label=way or "cross-entropy")
        axis.set_xticks(range(len(TABLES)), TABLES)
        axis.set(ylabel=label)
    handles, names = axes[0].get_legend_handles_labels()
    figure.suptitle("Ensembles of five perceptrons, 5-fold cross-validation")
    figure.tight_layout()
    figure.legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(WAYS))
    save(figure, stem)


_COMMON = {"strength": STRENGTH, "data_strength": DATA_STRENGTH}

STUDY = Study(
    name="unknown-shift-tables",
    title="Tables, far outside the data",
    models={f"{table} {way}".strip(): 1.0 for table in TABLES for way in WAYS},
    presets={
        "smoke": Preset(1, {**_COMMON, "epochs": 2}),
        "cpu": Preset(2, {**_COMMON, "epochs": 100}),
        "paper": Preset(5, {**_COMMON, "epochs": 100}),
    },
    run=run,
    draw=draw,
    claims=claims,
)
