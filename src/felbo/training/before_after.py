"""Compare a model before and after fine-tuning, on its data and elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import nn

from felbo.evaluation import Prediction, Scores, detection, predict, score
from felbo.inputs import as_inputs, as_labels
from felbo.measurement import Elsewhere
from felbo.models import MAP, StochasticClassifier
from felbo.random import torch_seed

HEADER: tuple[str, ...] = (
    "inputs",
    "model",
    "accuracy",
    "log-lik.",
    "ECE",
    "confidence",
    "AUROC",
)


class Row(NamedTuple):
    """Scores of one model on one set of inputs.

    Attributes:
        inputs: name of the set; the first is the data.
        model: ``"before"`` or ``"after"``.
        accuracy: per cent; NaN for inputs without labels, as the next two.
        log_likelihood: in nats.
        ece: expected calibration error.
        confidence: mean probability of the most probable class.
        auroc: AUROC with which the entropy of the prediction separates these inputs from the data
            (0.5: not at all, 1: always larger here); NaN for the data.
    """

    inputs: str
    model: str
    accuracy: float
    log_likelihood: float
    ece: float
    confidence: float
    auroc: float


class BeforeAfter(tuple[Row, ...]):
    """Rows in pairs, before and after; ``str`` formats them as a table."""

    def __str__(self) -> str:
        """Return a table, with dashes where a score is not defined."""
        formats = (".1f", ".3f", ".3f", ".2f", ".3f")
        lines = [HEADER]
        for row in self:
            numbers = [_shown(value, how) for value, how in zip(row[2:], formats, strict=True)]
            lines.append((row.inputs, row.model, *numbers))
        widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
        return "\n".join(
            "  ".join(
                text.ljust(width) if column < 2 else text.rjust(width)
                for column, (text, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        )


def compare_before_after(
    before: nn.Module,
    after: StochasticClassifier,
    data: tuple[Any, Any],
    elsewhere: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
) -> BeforeAfter:
    """Score a model before and after fine-tuning, on held-out data and elsewhere.

    Args:
        before: the network that was fine-tuned, or any stochastic classifier.
        after: the result of :func:`felbo.finetune`.
        data: ``(x, y)`` that neither was trained on.
        elsewhere: named sets of other inputs: ``x``, or ``(x, y)`` if labels still hold there.
            ``None`` is :class:`felbo.measurement.Elsewhere`, made from x.
        seed: of the draws and of points made from x.

    Example:
        >>> import torch, felbo
        >>> x, y = torch.randn(64, 2), torch.arange(64) % 2
        >>> trained = felbo.networks.mlp(2, (8,), 2)
        >>> tuned = felbo.finetune(trained, (x, y), epochs=1, progress=False)
        >>> rows = compare_before_after(trained, tuned, (x, y), {"far": 10 * x})
        >>> [(row.inputs, row.model) for row in rows]
        [('data', 'before'), ('data', 'after'), ('far', 'before'), ('far', 'after')]
    """
    first = before if isinstance(before, StochasticClassifier) else MAP(before)
    models = {"before": first, "after": after}
    dtype = next(after.parameters()).dtype
    x = as_inputs(data[0], dtype)
    if elsewhere is None:
        with torch_seed(seed):
            elsewhere = {"points elsewhere": Elsewhere()(x)}
    on_data = {name: predict(model, x, seed=seed) for name, model in models.items()}
    rows = [_row("data", name, found, data[1], None) for name, found in on_data.items()]
    for inputs, other in elsewhere.items():
        places, labels = other if isinstance(other, tuple) else (other, None)
        for name, model in models.items():
            found = predict(model, as_inputs(places, dtype), seed=seed)
            rows.append(_row(inputs, name, found, labels, on_data[name]))
    return BeforeAfter(rows)


def _row(
    inputs: str, model: str, found: Prediction, labels: Any, on_data: Prediction | None
) -> Row:
    missing = Scores(math.nan, math.nan, math.nan, math.nan)
    scores = missing if labels is None else score(found, as_labels(labels))
    return Row(
        inputs,
        model,
        scores.accuracy,
        scores.log_likelihood,
        scores.ece,
        float(found.confidence.mean()),
        math.nan if on_data is None else detection(on_data.total, found.total).auroc,
    )


def _shown(value: float, how: str) -> str:
    return "–" if math.isnan(value) else format(value, how)
