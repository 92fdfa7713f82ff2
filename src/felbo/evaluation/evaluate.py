"""Evaluate a model in one call: on test data, under shift, and out of distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from felbo.errors import InputTypeError, ShapeError
from felbo.evaluation.detection import Detection, detection
from felbo.evaluation.labelled import LabelledData, predict_labelled
from felbo.evaluation.predict import predict
from felbo.evaluation.prediction import Prediction
from felbo.evaluation.quality import Quality, quality
from felbo.evaluation.uncertainty_scores import uncertainty_scores
from felbo.inputs import Inputs, as_labels

Model = nn.Module | Sequence[nn.Module] | Prediction


@dataclass(frozen=True)
class Evaluation:
    """Result of :func:`evaluate`; ``print`` shows it as tables.

    Attributes:
        test: quality on the test data.
        shifts: quality on each shifted data set, by name.
        ood: detection of each out-of-distribution data set, by its name and that of the score.
    """

    test: Quality
    shifts: Mapping[str, Quality]
    ood: Mapping[str, Mapping[str, Detection]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, lists and numbers, ready for ``json.dumps``."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    def __str__(self) -> str:
        return "\n\n".join(_tables(self))

    __repr__ = __str__


def evaluate(
    model: Model,
    test: LabelledData | Tensor | Any,
    *,
    ood: Mapping[str, Inputs | Prediction] | None = None,
    shifts: Mapping[str, LabelledData] | None = None,
    bins: int = 15,
    smoothing: float = 1e-4,
    resamples: int = 1000,
    level: float = 0.95,
    coverages: Sequence[float] = (0.8, 0.9, 0.95),
    accuracies: Sequence[float] = (95.0, 98.0, 99.0),
    generator: torch.Generator | None = None,
    **settings: Any,
) -> Evaluation:
    """Measure accuracy, calibration, selective prediction and out-of-distribution detection.

    Args:
        model: a stochastic classifier, a list of networks, or a prediction for the test data.
        test: labelled data: ``(x, y)`` as tensors or arrays, a ``DataLoader`` or a ``Dataset``; for
            a prediction, the labels ``[B]`` alone.
        ood: name → inputs from elsewhere, in any form that :func:`felbo.predict` takes, or their
            prediction.
        shifts: name → labelled data on which the test is repeated, or ``(prediction, labels)``.
        bins: of calibration errors and the reliability diagram.
        smoothing: γ of the log-likelihood, as in :func:`felbo.score`, and of :func:`felbo.predict`.
        resamples: of the bootstrap.
        level: of its intervals.
        coverages: fractions of accepted items at which the accuracy is reported.
        accuracies: in per cent, at which the coverage is reported.
        generator: of the resamples, on the CPU; ``None`` is torch's global generator.
        settings: further arguments of :func:`felbo.predict`: ``num_samples``, ``num_data``,
            ``batch_size``, ``seed``.

    Example:
        >>> import torch, felbo
        >>> x, y = torch.randn(60, 2), torch.arange(60) % 3
        >>> model = felbo.MCDropout(felbo.networks.mlp(2, (8,), 3))
        >>> found = felbo.evaluate(model, (x, y), ood={"far": 10 + x}, resamples=100, seed=0)
        >>> found.test.size, sorted(found.ood["far"])
        (60, ['confidence', 'epistemic', 'precision', 'total'])
        >>> 0 <= found.test.ece.low <= found.test.ece.high <= 1
        True
    """
    _check_named("ood", ood)
    _check_named("shifts", shifts)
    settings = {"smoothing": smoothing, **settings}
    measured = partial(
        quality,
        bins=bins,
        smoothing=smoothing,
        resamples=resamples,
        level=level,
        coverages=coverages,
        accuracies=accuracies,
        generator=generator,
    )
    prediction, labels = _labelled(model, test, settings)
    scores = uncertainty_scores(prediction)
    return Evaluation(
        test=measured(prediction, labels),
        shifts={
            name: measured(*_labelled(model, data, settings))
            for name, data in (shifts or {}).items()
        },
        ood={
            name: _detections(scores, _foreign(model, name, x, settings, prediction.probs.shape[1]))
            for name, x in (ood or {}).items()
        },
    )


def _check_named(what: str, data: Any) -> None:
    if data is not None and not isinstance(data, Mapping):
        raise InputTypeError(
            f"{what} is a dict of data by name, such as {what}={{'name': data}}; got "
            f"{type(data).__name__}."
        )


def _labelled(model: Model, data: Any, settings: dict[str, Any]) -> tuple[Prediction, Tensor]:
    if isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[0], Prediction):
        return data[0], as_labels(data[1])
    if not isinstance(model, Prediction):
        return predict_labelled(model, data, **settings)
    if isinstance(data, tuple | DataLoader | Dataset):
        raise InputTypeError(
            "A prediction is evaluated on labels [B] alone, and its shifts on pairs (prediction, "
            f"labels); got {type(data).__name__}. Pass the model to evaluate it on inputs."
        )
    return model, as_labels(data)


def _foreign(model: Model, name: str, x: Any, settings: dict[str, Any], classes: int) -> Prediction:
    if isinstance(x, Prediction):
        if len(x) == 0 or x.probs.shape[1] != classes:
            raise ShapeError(
                f"ood[{name!r}] must be a prediction for at least one input with {classes} "
                f"classes, as for the test data; got {list(x.probs.shape)}."
            )
        return x
    if isinstance(model, Prediction):
        raise InputTypeError(
            f"ood[{name!r}] must be a prediction, since there is no model to predict with; got "
            f"{type(x).__name__}. Pass felbo.predict(model, x), or the model itself."
        )
    return predict(model, x, **settings)


def _detections(scores: dict[str, Tensor], foreign: Prediction) -> dict[str, Detection]:
    elsewhere = uncertainty_scores(foreign)
    return {
        name: detection(inside, elsewhere[name])
        for name, inside in scores.items()
        if name in elsewhere
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value


def _tables(found: Evaluation) -> list[str]:
    """Return the test with intervals, the shifts without, selective prediction and detection."""
    names = list(found.test.estimates)
    rows = [[name, str(estimate)] for name, estimate in found.test.estimates.items()]
    tables = [_table(["test", f"{found.test.size} items"], rows)]
    if found.shifts:
        rows = [
            [name, *(f"{estimate.value:.4g}" for estimate in part.estimates.values())]
            for name, part in found.shifts.items()
        ]
        tables.append(_table(["shift", *names], rows))
    tables.append(_selective_table(found.test))
    if found.ood:
        rows = [
            [name, score, *(f"{value:.4f}" for value in asdict(measured).values())]
            for name, scores in found.ood.items()
            for score, measured in scores.items()
        ]
        tables.append(_table(["elsewhere", "score", "AUROC", "AUPR in", "AUPR out", "FPR95"], rows))
    return tables


def _selective_table(test: Quality) -> str:
    first = next(iter(test.selective.values()))
    head = ["score", "AURC", "AUGRC"]
    head += [f"accuracy at {share:g}" for share in first.accuracy_at]
    head += [f"coverage at {wanted:g} %" for wanted in first.coverage_at]
    rows = [
        [name, f"{found.aurc:.4f}", f"{found.augrc:.4f}"]
        + [f"{value:.2f}" for value in (*found.accuracy_at.values(), *found.coverage_at.values())]
        for name, found in test.selective.items()
    ]
    return _table(head, rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    columns = zip(head, *rows, strict=True)
    widths = [max(len(cell) for cell in column) for column in columns]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join(lines)
