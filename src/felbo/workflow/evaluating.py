"""Evaluate predictions and choose the examples that are worth looking at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from felbo.evaluation import Prediction, evaluate
from felbo.evaluation.spread import Spread
from felbo.workflow.columns import Columns, columns_of
from felbo.workflow.folder import StoredEvaluation

# Examples of each kind that a report shows.
SHOWN = 12

Show = Callable[[int], dict[str, Any]]


def evaluated(
    name: str,
    predictions: Iterable[Prediction],
    labels: Any,
    ood: Mapping[str, Iterable[Prediction]],
    show: Show,
    seed: int,
) -> StoredEvaluation:
    """Measure predictions against labels, and against those for data from elsewhere.

    Args:
        name: of the evaluation.
        predictions: for the labelled data, in chunks.
        labels: position of the true class of each item ``[n]``.
        ood: predictions for data from elsewhere, by name, in chunks.
        show: from the position of an item to what a report shows of it.
        seed: of the bootstrap.
    """
    test = _joined(predictions)
    elsewhere = {key: _joined(chunks) for key, chunks in ood.items()}
    target = torch.as_tensor(np.asarray(labels))
    generator = torch.Generator().manual_seed(seed)
    found = evaluate(test, target, ood=elsewhere, generator=generator)
    columns = columns_of([test])
    return StoredEvaluation(
        name=name,
        scores=found.to_dict(),
        labels=target.numpy(),
        test=columns,
        ood={key: columns_of([part]) for key, part in elsewhere.items()},
        examples={
            kind: [_example(columns, target.numpy(), int(row), show) for row in rows]
            for kind, rows in notable(columns, target.numpy()).items()
        },
    )


def notable(columns: Columns, labels: Any) -> dict[str, Any]:
    """Return positions of the most uncertain items, and of the most confidently wrong ones."""
    confidence, predicted = columns["probs"].max(-1), columns["probs"].argmax(-1)
    wrong = np.flatnonzero(predicted != labels)
    return {
        "uncertain": np.argsort(-columns["total"], kind="stable")[:SHOWN],
        "wrong": wrong[np.argsort(-confidence[wrong], kind="stable")][:SHOWN],
    }


def _example(columns: Columns, labels: Any, row: int, show: Show) -> dict[str, Any]:
    probs = columns["probs"][row]
    epistemic = float(columns["epistemic"][row])
    return {
        "label": int(labels[row]),
        "predicted": int(probs.argmax()),
        "confidence": float(probs.max()),
        "total": float(columns["total"][row]),
        "epistemic": None if np.isnan(epistemic) else epistemic,
        **show(row),
    }


def _joined(chunks: Iterable[Prediction]) -> Prediction:
    """Return one prediction for all chunks."""
    parts = list(chunks)
    if len(parts) == 1:
        return parts[0]
    probs = torch.cat([part.probs for part in parts])
    sources = [part.source for part in parts]
    spreads = [source for source in sources if isinstance(source, Spread)]
    if len(spreads) < len(parts):
        return Prediction(probs, torch.cat([part.concentration for part in parts]))
    return Prediction(probs, replace(spreads[0], value=torch.cat([s.value for s in spreads])))
