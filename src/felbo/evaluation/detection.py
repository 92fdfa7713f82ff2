"""Out-of-distribution detection: AUROC, AUPR and FPR95 of an uncertainty score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from felbo.evaluation.checks import scores_per_item


@dataclass(frozen=True)
class Detection:
    """Separation of two sets of inputs by one score; all values are fractions.

    Attributes:
        auroc: probability that an input from elsewhere has the larger score, ties counting half;
            0.5 is chance, 1 is best.
        aupr_in: average precision with the inputs of the test set as the positive class.
        aupr_out: average precision with the inputs from elsewhere as the positive class. For both,
            chance is the fraction of the positive class.
        fpr95: fraction of inputs from elsewhere that are accepted at the threshold that accepts
            95 % of the test inputs; 0 is best (Liang et al., 2018).
    """

    auroc: float
    aupr_in: float
    aupr_out: float
    fpr95: float


def detection(inside: Tensor | Any, outside: Tensor | Any) -> Detection:
    """Measure how well a score detects inputs from elsewhere.

    Args:
        inside: scores of the inputs that are known ``[B]``, larger where less certain.
        outside: the same score at inputs from elsewhere ``[B']``.

    Example:
        Three of four pairs are in the right order.

        >>> detection([0.1, 0.3], [0.2, 0.4]).auroc
        0.75
    """
    # Imported lazily: it takes longer to load than all of felbo.
    from torchmetrics.functional.classification import (
        binary_auroc,
        binary_average_precision,
        binary_specificity_at_sensitivity,
    )

    known, foreign = scores_per_item(inside, "inside"), scores_per_item(outside, "outside")
    rank = _ranks(torch.cat([known, foreign]))
    is_foreign = torch.cat([torch.zeros(len(known)), torch.ones(len(foreign))]).long()
    # The known inputs are the positive class, with a sensitivity of 95 %.
    specificity, _ = binary_specificity_at_sensitivity(1 - rank, 1 - is_foreign, 0.95)
    return Detection(
        auroc=float(binary_auroc(rank, is_foreign)),
        aupr_in=float(binary_average_precision(1 - rank, 1 - is_foreign)),
        aupr_out=float(binary_average_precision(rank, is_foreign)),
        fpr95=float(1 - specificity),
    )


def _ranks(scores: Tensor) -> Tensor:
    """Return ranks of scores in [0, 1), equal for equal scores.

    torchmetrics treats values outside [0, 1] as logits and applies a sigmoid, which saturates for
    large scores, such as precisions of thousands.
    """
    return torch.searchsorted(scores.sort().values, scores).double() / len(scores)
