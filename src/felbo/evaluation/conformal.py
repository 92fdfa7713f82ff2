"""Split conformal prediction: sets of classes with guaranteed coverage.

A nonconformity score s(x, y) is larger the worse class y fits the prediction. From n held-out items
the threshold is the k-th smallest score of their labels, ``k = ⌈(n + 1) c⌉``, that is the empirical
quantile at ``k / n``; the set of a new input is ``{y : s(x, y) ≤ threshold}``. If held-out and new
items are exchangeable, then, for any model, the set contains the label with a probability of at
least c, and at most ``c + 1 / (n + 1)`` if scores do not tie (Vovk et al., 2005; Lei et al., 2018).
The probability is over both the held-out and the new items, and marginal over inputs: there is no
guarantee for a single input, and none under distribution shift.

Scores:

- ``"threshold"``: ``1 − p_y`` (LAC: Sadinle et al., 2019). The smallest sets on average, which may
  be empty.
- ``"aps"``: ``Σ_{j before y} p_j + u p_y`` with classes in decreasing order of probability and u
  uniform in [0, 1] (Romano et al., 2020). Larger sets that adapt to the difficulty of an input.
  Without randomisation u is 1: sets are never empty, and the coverage is too high.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from felbo.errors import DataError, ShapeError
from felbo.evaluation.checks import check_fraction, probabilities, probabilities_and_labels
from felbo.evaluation.prediction import Prediction
from felbo.objectives.checks import check_choice

Method = Literal["threshold", "aps"]


@dataclass(frozen=True)
class Coverage:
    """Coverage and size of prediction sets on labelled data.

    Attributes:
        marginal: fraction of items whose set contains the label.
        per_class: class → the same fraction among items of this class, for classes that occur.
        size: mean number of classes in a set.
        empty: fraction of empty sets.
    """

    marginal: float
    per_class: dict[int, float]
    size: float
    empty: float


@dataclass(frozen=True, eq=False)
class ConformalSets:
    """Thresholds from held-out data that turn predictions into sets of classes.

    Attributes:
        thresholds: largest score of a class in the set ``[K]``; all equal unless ``per_class``.
        target: target coverage c.
        method: the score.
        randomised: True if the ``"aps"`` score draws u.
    """

    thresholds: Tensor
    target: float
    method: Method
    randomised: bool

    def sets(
        self, probs: Prediction | Tensor | Any, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the prediction set of each input as a mask, bool ``[B, K]`` on the CPU.

        Args:
            probs: predictive ``[B, K]``, or the :class:`Prediction` that holds it.
            generator: of u; ``None`` is torch's global generator.
        """
        checked = probabilities(probs)
        if checked.shape[1] != len(self.thresholds):
            raise ShapeError(
                f"These sets are for {len(self.thresholds)} classes, got predictions for "
                f"{checked.shape[1]}."
            )
        return _scores(checked, self.method, self.randomised, generator) <= self.thresholds

    def coverage(
        self,
        probs: Prediction | Tensor | Any,
        labels: Tensor | Any,
        *,
        generator: torch.Generator | None = None,
    ) -> Coverage:
        """Evaluate the sets on labelled data other than the held-out data."""
        checked, target = probabilities_and_labels(probs, labels)
        sets = self.sets(checked, generator=generator)
        held = sets.gather(-1, target[:, None]).squeeze(-1).double()
        return Coverage(
            marginal=float(held.mean()),
            per_class={k: float(held[target == k].mean()) for k in sorted(set(target.tolist()))},
            size=float(sets.sum(-1).double().mean()),
            empty=float((~sets.any(-1)).double().mean()),
        )


def conformal(
    probs: Prediction | Tensor | Any,
    labels: Tensor | Any,
    *,
    coverage: float = 0.9,
    method: Method = "threshold",
    per_class: bool = False,
    randomised: bool = True,
    generator: torch.Generator | None = None,
) -> ConformalSets:
    """Compute thresholds of prediction sets from predictions for held-out data.

    Args:
        probs: predictive ``[n, K]``, or the :class:`Prediction` that holds it, for data that were
            seen neither in training nor in :func:`felbo.calibrate`.
        labels: ``[n]``, integers in 0 … K − 1.
        coverage: c, the probability with which a set contains the label.
        method: the score, ``"threshold"`` or ``"aps"``.
        per_class: a threshold for every class from its own items, so that c holds for each class
            (Mondrian: Vovk, 2012), not only on average. Needs enough items of every class.
        randomised: draw u for ``"aps"``.
        generator: of u; ``None`` is torch's global generator.

    Raises:
        ValueError: if there are fewer than ``c / (1 − c)`` items (per class): then the guarantee
            would require every class in every set.

    Example:
        >>> import torch, felbo
        >>> probs = torch.rand(500, 3, generator=torch.Generator().manual_seed(0)).softmax(-1)
        >>> labels = torch.multinomial(probs, 1, generator=torch.Generator().manual_seed(1))[:, 0]
        >>> sets = felbo.conformal(probs[:300], labels[:300], coverage=0.9)
        >>> sets.sets(probs[300:]).shape
        torch.Size([200, 3])
        >>> 0.8 < sets.coverage(probs[300:], labels[300:]).marginal <= 1.0
        True
    """
    check_choice("method", method, ("threshold", "aps"))
    check_fraction("coverage", coverage)
    checked, target = probabilities_and_labels(probs, labels)
    scores = _scores(checked, method, randomised, generator).gather(-1, target[:, None])[:, 0]
    classes = checked.shape[1]
    if per_class:
        _check_sizes(torch.bincount(target, minlength=classes).tolist(), coverage)
        found = [_quantile(scores[target == k], coverage) for k in range(classes)]
        thresholds = torch.stack(found)
    else:
        _check_sizes([len(scores)], coverage)
        thresholds = _quantile(scores, coverage).expand(classes).clone()
    return ConformalSets(thresholds, coverage, method, randomised)


def _scores(
    probs: Tensor, method: Method, randomised: bool, generator: torch.Generator | None
) -> Tensor:
    """Return s(x, y) for all classes ``[B, K]``."""
    if method == "threshold":
        return 1 - probs
    ordered, order = probs.sort(stable=True, dim=-1, descending=True)
    draw = torch.rand(len(probs), 1, generator=generator, dtype=torch.float64)
    u = draw if randomised else torch.ones_like(draw)
    before = ordered.cumsum(-1) - ordered
    return torch.empty_like(probs).scatter(-1, order, before + u * ordered)


def _rank(size: int, coverage: float) -> int:
    """Return ``⌈(n + 1) c⌉``, tolerant to rounding errors of an integer ``(n + 1) c``."""
    return math.ceil((size + 1) * coverage - 1e-9)


def _quantile(scores: Tensor, coverage: float) -> Tensor:
    return scores.kthvalue(_rank(len(scores), coverage)).values


def _check_sizes(sizes: list[int], coverage: float) -> None:
    few = [k for k, size in enumerate(sizes) if _rank(size, coverage) > size]
    if not few:
        return
    needed = math.ceil(coverage / (1 - coverage) - 1e-9)
    where = f"{min(sizes)} items"
    if len(sizes) > 1:
        where = "per class, " + ", ".join(f"{sizes[k]} of class {k}" for k in few[:5])
    raise DataError(
        f"A coverage of {coverage:g} needs at least {needed} held-out items, got {where}. Hold out "
        "more data, or ask for less coverage."
    )
