"""Split conformal prediction: sets of classes that hold the label with a promised probability.

A score s(x, y) says how badly class y fits the prediction. From n held-out items the threshold is
the k-th smallest score of their labels, ``k = ⌈(n + 1) c⌉``, that is the empirical quantile at
``k / n``; the set of a new input is ``{y : s(x, y) ≤ threshold}``. If held-out and new items are
exchangeable, then, whatever the model, the set holds the label with a probability of at least c,
and at most ``c + 1 / (n + 1)`` if scores do not tie (Vovk et al., 2005; Lei et al., 2018). The
probability is over both the held-out and the new items, and on average over inputs: it says nothing
about a single input, and nothing once the data have shifted.

Scores:

- ``"threshold"``: ``1 − p_y`` (LAC: Sadinle et al., 2019). The smallest sets on average, which may
  be empty.
- ``"aps"``: ``Σ_{j before y} p_j + u p_y`` with classes in decreasing order of probability and u
  uniform in [0, 1] (Romano et al., 2020). Larger sets that follow the difficulty of an input.
  Without randomisation u is 1: sets are never empty, and cover too much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from felbo.evaluation.checks import check_fraction, probabilities, probabilities_and_labels
from felbo.evaluation.prediction import Prediction
from felbo.objectives.checks import check_choice

Method = Literal["threshold", "aps"]


@dataclass(frozen=True)
class Coverage:
    """What prediction sets achieve on labelled data.

    Attributes:
        marginal: share of items whose set holds the label.
        per_class: class → the same share among items of this class, for classes that occur.
        size: mean number of classes in a set.
        empty: share of sets without a class.
    """

    marginal: float
    per_class: dict[int, float]
    size: float
    empty: float


@dataclass(frozen=True, eq=False)
class ConformalSets:
    """Thresholds from held-out data, with which predictions become sets of classes.

    Attributes:
        thresholds: largest score of a class that is in the set ``[K]``; all equal unless the sets
            were made class by class.
        target: promised coverage c.
        method: the score.
        randomised: whether the ``"aps"`` score draws u.
    """

    thresholds: Tensor
    target: float
    method: Method
    randomised: bool

    def sets(
        self, probs: Prediction | Tensor | Any, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return which classes are in the set of each input, bool ``[B, K]`` on the CPU.

        Args:
            probs: predictive ``[B, K]``, or the :class:`Prediction` that holds it.
            generator: of u; ``None`` is torch's global generator.
        """
        checked = probabilities(probs)
        if checked.shape[1] != len(self.thresholds):
            raise ValueError(
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
        """Measure the sets on labelled data that were not used to make them."""
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
    """Make prediction sets from predictions for held-out data.

    Args:
        probs: predictive ``[n, K]``, or the :class:`Prediction` that holds it, for data that were
            seen neither in training nor in :func:`felbo.calibrate`.
        labels: ``[n]``, integers in 0 … K − 1.
        coverage: c, the probability with which a set shall hold the label.
        method: the score, ``"threshold"`` or ``"aps"``.
        per_class: a threshold for every class from its own items, so that c holds for each class
            (Mondrian: Vovk, 2012), not only on average. Needs enough items of every class.
        randomised: draw u for ``"aps"``.
        generator: of u; ``None`` is torch's global generator.

    Raises:
        ValueError: if there are fewer than ``c / (1 − c)`` items (per class): then the promise
            would need every class in every set.

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
    """Return ``⌈(n + 1) c⌉``; a whole number may come out larger by rounding."""
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
    raise ValueError(
        f"A coverage of {coverage:g} needs at least {needed} held-out items, got {where}. Hold out "
        "more data, or ask for less coverage."
    )
