"""Selective prediction: risk and accuracy when a model rejects its least certain predictions.

Items are accepted in the order of a score, most certain first. The first i of n items have coverage
``c_i = i / n`` and ``e_i`` errors. Two risks are functions of the coverage:

- selective risk ``e_i / i``: the fraction of errors among accepted items. Its mean over i is the
  AURC (Geifman et al., 2019);
- generalised risk ``e_i / n``: the probability that an item is accepted *and* wrong. The area under
  it is the AUGRC (Traub et al., 2024, "Overcoming Common Flaws in the Evaluation of Selective
  Classification Systems"), which does not overweight the few most certain items. With the accuracy
  a and the AUROC of errors against correct predictions it is
  ``(1 − AUROC) a (1 − a) + (1 − a)² / 2``.

For items of equal score, both areas are averages over all of their orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from felbo.errors import DataError, SettingError, ShapeError
from felbo.evaluation.checks import probabilities_and_labels, scores_per_item
from felbo.evaluation.prediction import Prediction

# Tolerance of comparisons between fractions of n items.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """Risk over coverage for one score.

    Attributes:
        uncertainty: scores in increasing order ``[n]``.
        errors: ``e_i``, the errors among the i most certain items ``[n]``; inside a group of equal
            scores, the mean over its orders.
    """

    uncertainty: Tensor
    errors: Tensor

    @property
    def coverage(self) -> Tensor:
        """Fraction of accepted items ``i / n``, ``[n]``."""
        return self._accepted / len(self.errors)

    @property
    def risk(self) -> Tensor:
        """Selective risk ``e_i / i``, ``[n]``."""
        return self.errors / self._accepted

    @property
    def generalised_risk(self) -> Tensor:
        """Generalised risk ``e_i / n``, ``[n]``."""
        return self.errors / len(self.errors)

    @property
    def aurc(self) -> float:
        """Area under the risk–coverage curve, ``mean_i e_i / i``; 0 is best."""
        return float(self.risk.mean())

    @property
    def augrc(self) -> float:
        """Area under the generalised curve from (0, 0), by trapezoids; 0 is best, 1/2 is worst."""
        return float(self.generalised_risk.mean() - self.errors[-1] / (2 * len(self.errors) ** 2))

    def accuracy_at(self, coverage: float) -> float:
        """Return the accuracy in per cent if at least this fraction of items is accepted.

        Example:
            >>> curve = risk_coverage([0.1, 0.2, 0.3, 0.4], correct=[True, True, True, False])
            >>> curve.accuracy_at(0.75), curve.accuracy_at(1.0)
            (100.0, 75.0)
        """
        if not 0.0 < coverage <= 1.0:
            raise SettingError(f"coverage is a fraction above 0 and up to 1, got {coverage}.")
        enough = self._attainable & (self.coverage >= coverage - _ROUNDING)
        return 100.0 * float(1 - self.risk[enough][0])

    def coverage_at(self, accuracy: float) -> float:
        """Return the largest coverage at which accepted items reach an accuracy; 0 if none does.

        Args:
            accuracy: in per cent.

        Example:
            >>> curve = risk_coverage([0.1, 0.2, 0.3, 0.4], correct=[True, True, True, False])
            >>> curve.coverage_at(99.0)
            0.75
        """
        reached = self._reaching(accuracy)
        return float(self.coverage[reached[-1]]) if len(reached) else 0.0

    def threshold_at(self, accuracy: float) -> float:
        """Return the threshold of the score that accepts the items of :meth:`coverage_at`.

        Raises:
            ValueError: if no threshold reaches the accuracy.
        """
        reached = self._reaching(accuracy)
        if not len(reached):
            best = 100.0 * float(1 - self.risk[self._attainable].min())
            raise SettingError(
                f"No threshold reaches an accuracy of {accuracy} %; the best is {best:.2f} %."
            )
        return float(self.uncertainty[reached[-1]])

    @property
    def _accepted(self) -> Tensor:
        return torch.arange(1, len(self.errors) + 1, dtype=torch.float64)

    @property
    def _attainable(self) -> Tensor:
        """True if a threshold accepts exactly the first i items: the next score is larger."""
        last = torch.ones(1, dtype=torch.bool)
        return torch.cat([self.uncertainty[1:] > self.uncertainty[:-1], last])

    def _reaching(self, accuracy: float) -> Tensor:
        if not 1.0 < accuracy <= 100.0:
            raise SettingError(f"accuracy is in per cent, above 1 and up to 100; got {accuracy}.")
        good = 100.0 * (1 - self.risk) >= accuracy - _ROUNDING
        return (self._attainable & good).nonzero().flatten()


def risk_coverage(uncertainty: Tensor | Any, correct: Tensor | Any) -> RiskCoverage:
    """Return the risk–coverage curve of a score.

    Args:
        uncertainty: ``[B]``, larger where a prediction is less certain, such as
            ``prediction.total``, ``prediction.epistemic`` or ``-prediction.confidence``.
        correct: True for each correct prediction ``[B]``, such as ``prediction.labels == y``.

    Example:
        The one error comes last: the best order.

        >>> curve = risk_coverage([0.1, 0.2, 0.3, 0.4], correct=[True, True, True, False])
        >>> curve.risk
        tensor([0.0000, 0.0000, 0.0000, 0.2500], dtype=torch.float64)
        >>> curve.aurc, curve.augrc
        (0.0625, 0.03125)
    """
    scores = scores_per_item(uncertainty, "uncertainty")
    right = scores_per_item(correct, "correct")
    if right.shape != scores.shape:
        raise ShapeError(f"Got {len(scores)} scores but {len(right)} predictions right or wrong.")
    if not bool(((right == 0) | (right == 1)).all()):
        raise DataError(
            "correct must hold True or False for each item: whether its prediction is right."
        )
    ordered, order = scores.sort()
    # Items first … last − 1 have the same score as item i.
    first = torch.searchsorted(ordered, ordered)
    last = torch.searchsorted(ordered, ordered, right=True)
    before = torch.cat([torch.zeros(1), (1 - right[order]).cumsum(0)])
    share = (torch.arange(1, len(scores) + 1) - first).double() / (last - first)
    return RiskCoverage(ordered, before[first] + share * (before[last] - before[first]))


def correct_predictions(probs: Prediction | Tensor | Any, labels: Tensor | Any) -> Tensor:
    """Return a mask ``[B]``: True where the most probable class is the label."""
    checked, target = probabilities_and_labels(probs, labels)
    return checked.argmax(-1) == target
