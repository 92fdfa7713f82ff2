"""A prediction as named columns: what tables of predictions and evaluations hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from felbo.evaluation import Prediction

Columns = dict[str, NDArray[Any]]

# Scores by which a prediction can be withheld, each larger where it is less certain.
SCORES = ("total", "aleatoric", "epistemic", "confidence", "precision")


def columns_of(predictions: Iterable[Prediction]) -> Columns:
    """Return probabilities ``[B, K]``, precision and uncertainties ``[B]`` of chunks, joined.

    For a model of one draw, the epistemic uncertainty is NaN.
    """
    chunks = [_columns(prediction) for prediction in predictions]
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def _columns(prediction: Prediction) -> Columns:
    total = prediction.total
    epistemic = prediction.epistemic if prediction.is_random else total * float("nan")
    found = {
        "probs": prediction.probs,
        "precision": prediction.precision,
        "total": total,
        "aleatoric": prediction.aleatoric,
        "epistemic": epistemic,
    }
    return {name: part.cpu().numpy() for name, part in found.items()}


def score_of(columns: Columns, score: str) -> NDArray[Any]:
    """Return a score by which to withhold predictions, larger where they are less certain."""
    if score == "confidence":
        return np.asarray(-columns["probs"].max(-1))
    values = columns[score]
    return np.asarray(-values if score == "precision" else values)


def named_columns(columns: Columns, classes: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """Return one array per column of a table of predictions, by its name there."""
    probs = columns["probs"]
    labels = np.array([str(label) for label in classes], dtype=object)
    found: dict[str, NDArray[Any]] = {
        "prediction": labels[probs.argmax(-1)],
        "confidence": probs.max(-1),
    }
    for position, label in enumerate(labels):
        found[f"probability_{label}"] = probs[:, position]
    return found | {
        name: columns[name] for name in ("precision", "total", "aleatoric", "epistemic")
    }
