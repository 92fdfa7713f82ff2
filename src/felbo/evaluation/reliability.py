"""Reliability diagram: accuracy per confidence bin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from felbo.evaluation.calibration import Binning, cells
from felbo.evaluation.checks import probabilities_and_labels
from felbo.evaluation.prediction import Prediction


@dataclass(frozen=True)
class Reliability:
    """The non-empty bins, in increasing order of confidence.

    Attributes:
        low: lower end of each bin: its edge for bins of equal width, else its smallest confidence.
        high: upper end.
        count: number of items.
        confidence: mean confidence of the items.
        accuracy: fraction of the items whose most probable class is right.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    count: tuple[int, ...]
    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]

    @property
    def ece(self) -> float:
        """Expected calibration error ``Σ_b n_b/n |accuracy_b − confidence_b|``."""
        gaps = zip(self.count, self.confidence, self.accuracy, strict=True)
        return sum(n * abs(a - c) for n, c, a in gaps) / sum(self.count)


def reliability(
    probs: Prediction | Tensor | Any,
    labels: Tensor | Any,
    *,
    binning: Binning = "width",
    bins: int = 15,
) -> Reliability:
    """Return the bins of a reliability diagram; :func:`felbo.report.draw_reliability` draws it.

    Args:
        probs: predictive ``[B, K]``, or the :class:`Prediction` that holds it.
        labels: ``[B]``, integers in 0 … K − 1.
        binning: bins of equal ``"width"``, or of equal ``"mass"``.
        bins: number of bins, of which empty ones are left out.

    Example:
        >>> import torch
        >>> probs = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]])
        >>> found = reliability(probs, torch.tensor([0, 0, 0, 1]), bins=10)
        >>> found.count, found.accuracy
        ((2, 2), (0.5, 1.0))
    """
    checked, target = probabilities_and_labels(probs, labels)
    found = cells(checked, target, "top", binning, bins)
    cell, confidence = found.cell[:, 0], checked.amax(-1)
    count = torch.bincount(cell, minlength=bins)
    used = count.nonzero().flatten()

    def mean(values: Tensor) -> Tensor:
        return (torch.bincount(cell, values.double(), bins) / count)[used]

    if binning == "width":
        low, high = used / bins, (used + 1) / bins
    else:
        low = torch.ones(bins).double().scatter_reduce(0, cell, confidence, "amin")[used]
        high = torch.zeros(bins).double().scatter_reduce(0, cell, confidence, "amax")[used]
    right = checked.argmax(-1) == target
    columns = (low, high, count[used], mean(confidence), mean(right))
    return Reliability(*(tuple(column.tolist()) for column in columns))
