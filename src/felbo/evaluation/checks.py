"""Convert predictions and labels to checked tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from felbo.dirichlet.validation import check_simplex
from felbo.errors import DataError, InputTypeError, ShapeError
from felbo.evaluation.prediction import Prediction
from felbo.inputs import as_inputs, as_labels, check_one_label_each
from felbo.objectives.checks import check_label_range


def probabilities(given: Prediction | Tensor | Any) -> Tensor:
    """Return class probabilities ``[B, K]`` in float64 on the CPU; raise for anything else.

    Args:
        given: a :class:`Prediction`, or its probabilities as a tensor or array.

    Example:
        >>> probabilities([[0.75, 0.25]])
        tensor([[0.7500, 0.2500]], dtype=torch.float64)
    """
    if isinstance(given, nn.Module):
        raise InputTypeError(
            f"Expected a prediction, got the model itself, {type(given).__name__}: pass "
            "felbo.predict(model, x)."
        )
    raw = given.probs if isinstance(given, Prediction) else as_inputs(given, torch.float64)
    if not isinstance(raw, Tensor) or raw.dim() != 2 or len(raw) == 0 or raw.shape[1] < 2:
        shape = list(raw.shape) if isinstance(raw, Tensor) else type(given).__name__
        raise ShapeError(
            f"Expected a prediction, or probabilities [B, K] with B ≥ 1 and K ≥ 2; got {shape}."
        )
    probs = raw.detach().to("cpu", torch.float64)
    missing = probs.isnan().any(-1)
    if bool(missing.any()):
        raise DataError(f"The probabilities of item {int(missing.nonzero()[0])} hold NaN.")
    check_simplex(probs)
    return probs


def probabilities_and_labels(
    given: Prediction | Tensor | Any, labels: Tensor | Any
) -> tuple[Tensor, Tensor]:
    """Return probabilities ``[B, K]`` and labels ``[B]`` of matching sizes, on the CPU."""
    probs, target = probabilities(given), as_labels(labels).detach().cpu().long()
    check_one_label_each(target, len(probs))
    check_label_range(target, probs.shape[1])
    return probs, target


def scores_per_item(values: Tensor | Any, what: str) -> Tensor:
    """Return one finite number per item, ``[B]`` in float64 on the CPU.

    Args:
        values: a tensor or array.
        what: its name in error messages.
    """
    raw = as_inputs(values, torch.float64)
    if not isinstance(raw, Tensor) or raw.dim() != 1 or len(raw) == 0:
        shape = list(raw.shape) if isinstance(raw, Tensor) else type(values).__name__
        raise ShapeError(f"Expected {what} as one number per item, [B] with B ≥ 1; got {shape}.")
    scores = raw.detach().to("cpu", torch.float64)
    bad = ~scores.isfinite()
    if bool(bad.any()):
        index = int(bad.nonzero()[0])
        raise DataError(f"{what} must be finite, got {float(scores[index])} for item {index}.")
    return scores


def check_fraction(what: str, value: float) -> None:
    """Raise unless ``value`` lies strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise DataError(f"{what} is a fraction between 0 and 1, got {value}.")
