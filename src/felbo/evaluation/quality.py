"""All metrics of predictions against labels, each with a bootstrap interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from felbo import dirichlet
from felbo.errors import DataError
from felbo.evaluation.bootstrap import Estimate, Measures, bootstrap
from felbo.evaluation.calibration import cells, error_of
from felbo.evaluation.checks import probabilities_and_labels
from felbo.evaluation.prediction import Prediction
from felbo.evaluation.reliability import Reliability, reliability
from felbo.evaluation.selective import correct_predictions, risk_coverage
from felbo.evaluation.uncertainty_scores import uncertainty_scores


@dataclass(frozen=True)
class Selective:
    """Selective prediction by one score.

    Attributes:
        aurc: area under the risk–coverage curve; 0 is best.
        augrc: area under the generalised risk–coverage curve; 0 is best, 1/2 worst.
        accuracy_at: coverage → accuracy in per cent of the accepted items.
        coverage_at: accuracy in per cent → the largest coverage that reaches it.
    """

    aurc: float
    augrc: float
    accuracy_at: Mapping[float, float]
    coverage_at: Mapping[float, float]


@dataclass(frozen=True)
class Quality:
    """Metrics of predictions for one set of labelled data.

    Attributes:
        size: number of items.
        accuracy: per cent of items whose most probable class is right.
        log_likelihood: mean log-probability of the label, in nats, of the smoothed predictive.
        brier: mean squared distance to the one-hot label, 0 … 2.
        ece: expected calibration error of the top label, bins of equal width.
        ece_mass: the same with bins of equal mass.
        ece_class: mean over classes of the calibration error of each class, equal width.
        rms_calibration: root mean square over bins in place of the mean, top label, equal width.
        max_calibration: the largest gap of any bin, top label, equal width.
        selective: selective prediction by each score.
        reliability: bins of the reliability diagram.
    """

    size: int
    accuracy: Estimate
    log_likelihood: Estimate
    brier: Estimate
    ece: Estimate
    ece_mass: Estimate
    ece_class: Estimate
    rms_calibration: Estimate
    max_calibration: Estimate
    selective: Mapping[str, Selective]
    reliability: Reliability

    @property
    def estimates(self) -> dict[str, Estimate]:
        """The metrics that have an interval, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Estimate)}


def quality(
    prediction: Prediction,
    labels: Tensor,
    *,
    bins: int = 15,
    smoothing: float = 1e-4,
    resamples: int = 1000,
    level: float = 0.95,
    coverages: Sequence[float] = (0.8, 0.9, 0.95),
    accuracies: Sequence[float] = (95.0, 98.0, 99.0),
    generator: torch.Generator | None = None,
) -> Quality:
    """Measure predictions against labels; arguments are those of :func:`felbo.evaluate`."""
    probs, target = probabilities_and_labels(prediction, labels)
    found = bootstrap(
        _means(probs, target, smoothing),
        len(target),
        norms=_calibration_errors(probs, target, bins),
        resamples=resamples,
        level=level,
        generator=generator,
    )
    selective = {}
    for name, uncertainty in uncertainty_scores(prediction).items():
        curve = risk_coverage(uncertainty, correct_predictions(probs, target))
        selective[name] = Selective(
            aurc=curve.aurc,
            augrc=curve.augrc,
            accuracy_at={share: curve.accuracy_at(share) for share in coverages},
            coverage_at={wanted: curve.coverage_at(wanted) for wanted in accuracies},
        )
    diagram = reliability(probs, target, bins=bins)
    return Quality(size=len(target), **found, selective=selective, reliability=diagram)


def _means(probs: Tensor, labels: Tensor, smoothing: float) -> Measures:
    """Return the function from weights ``[R, n]`` to the measures ``[R]`` that are means."""
    items = torch.stack(
        [
            100.0 * (probs.argmax(-1) == labels),
            dirichlet.smooth(probs, smoothing).gather(-1, labels[:, None]).squeeze(-1).log(),
            (probs - one_hot(labels, probs.shape[1])).square().sum(-1),
        ],
        dim=-1,
    )
    if not bool(items.isfinite().all()):
        raise DataError(
            "The log-likelihood is −∞, since a label has probability 0. Use a smoothing above 0."
        )

    def measured(weights: Tensor) -> dict[str, Tensor]:
        accuracy, log_likelihood, brier = (weights @ items / len(items)).unbind(-1)
        return {"accuracy": accuracy, "log_likelihood": log_likelihood, "brier": brier}

    return measured


def _calibration_errors(probs: Tensor, labels: Tensor, bins: int) -> Measures:
    """Return the function from weights ``[R, n]`` to all calibration errors ``[R]``.

    Bins and their counts are those of the data for all weights.
    """
    width = cells(probs, labels, "top", "width", bins)
    mass = cells(probs, labels, "top", "mass", bins)
    classes = cells(probs, labels, "class", "width", bins)
    return lambda weights: {
        "ece": error_of(width, weights, "l1"),
        "ece_mass": error_of(mass, weights, "l1"),
        "ece_class": error_of(classes, weights, "l1"),
        "rms_calibration": error_of(width, weights, "l2"),
        "max_calibration": error_of(width, weights, "max"),
    }
