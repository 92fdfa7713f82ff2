"""Select the strength of the prior elsewhere, by a sweep on a split of the training data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from felbo._numbers import refuse_booleans
from felbo.errors import DataError, SettingError
from felbo.evaluation import detection, predict, score
from felbo.inputs import Inputs, as_inputs, as_labels, batch_size, map_tensors
from felbo.measurement import Elsewhere, MeasurementLike
from felbo.models import StochasticClassifier
from felbo.objectives import FunctionSpaceELBO, NegativeLogLikelihood, Objective
from felbo.objectives.everywhere import DATA_STRENGTH
from felbo.priors import Prior, UniformPrior
from felbo.random import torch_seed
from felbo.training.fit import fit
from felbo.training.generators import state_kept

STRENGTHS = (0.003, 0.01, 0.03, 0.1, 0.3)


class Trial(NamedTuple):
    """Scores of one strength: loss on validation data, detection of points elsewhere.

    Attributes:
        strength: of the prior at points elsewhere; 0 is cross-entropy alone.
        accuracy: on validation data, per cent.
        log_likelihood: on validation data, nats.
        ece: on validation data.
        auroc: AUROC with which the entropy separates points elsewhere from validation data.
        confidence: mean confidence at the points elsewhere.
        nats: log-likelihood lost against strength 0.
        points: accuracy lost against strength 0, in percentage points.
    """

    strength: float
    accuracy: float
    log_likelihood: float
    ece: float
    auroc: float
    confidence: float
    nats: float
    points: float


@dataclass(frozen=True)
class StrengthChoice:
    """The chosen strength and all trials; ``str`` formats them as a table.

    Attributes:
        strength: the largest within both limits; 0 if none is.
        trials: one per strength, weakest first, beginning with 0.
        max_nats: limit of the log-likelihood lost.
        max_points: limit of the accuracy lost, in percentage points.
    """

    strength: float
    trials: tuple[Trial, ...]
    max_nats: float
    max_points: float

    def __str__(self) -> str:
        """Return the table; a star marks the choice."""
        lines = ["strength  accuracy  log-lik.    ECE  AUROC elsewhere  cost: nats  points"]
        for t in self.trials:
            mark = " *" if t.strength == self.strength else ""
            lines.append(
                f"{t.strength:8g}  {t.accuracy:8.2f}  {t.log_likelihood:8.3f}  {t.ece:5.3f}"
                f"  {t.auroc:15.3f}  {t.nats:+10.3f}  {t.points:+6.2f}{mark}"
            )
        return "\n".join(lines)


def choose_strength(
    make_model: Callable[[], StochasticClassifier],
    data: tuple[Any, Any],
    *,
    strengths: Sequence[float] = STRENGTHS,
    data_strength: float = DATA_STRENGTH,
    measurement: MeasurementLike | None = None,
    prior: Prior | None = None,
    validation: float | tuple[Any, Any] = 0.2,
    max_nats: float = 0.02,
    max_points: float = 0.3,
    seed: int = 0,
    **options: Any,
) -> StrengthChoice:
    """Find the largest strength of the prior elsewhere that loses little on validation data.

    Trains a model with cross-entropy alone and one for each strength with
    :meth:`felbo.FunctionSpaceELBO.everywhere`, all on the same part of the training data and from
    the same seed, and scores them on the rest. Test data are not used.

    Args:
        make_model: builds an untrained model, or wraps a trained network:
            ``lambda: felbo.MAP(network)``.
        data: ``(x, y)``, the training data.
        strengths: the strengths to try.
        data_strength: weight of the prior on the data, the same in all trials except strength 0.
        measurement: points elsewhere; ``None`` is :class:`felbo.measurement.Elsewhere`. Detection
            is measured at points of this set made from the validation inputs.
        prior: ``None`` is :class:`felbo.UniformPrior`.
        validation: the fraction of the data to validate on, or separate data ``(x, y)``.
        max_nats: largest loss of log-likelihood on validation data.
        max_points: largest loss of accuracy, in percentage points. A loss of one validation item is
            always allowed, which for a few hundred items is more.
        seed: of the split, the models' weights, the shuffle and the points.
        options: further arguments of :func:`felbo.fit`: ``epochs``, ``batch_size``,
            ``learning_rate``, ….

    Example:
        >>> import torch, felbo
        >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
        >>> choice = choose_strength(
        ...     lambda: felbo.MAP(felbo.networks.mlp(2, (8,), 2)), (x, (x[:, 0] > 0).long()),
        ...     strengths=(0.01, 0.1), epochs=2, batch_size=50)
        >>> [trial.strength for trial in choice.trials]
        [0.0, 0.01, 0.1]
    """
    refuse_booleans(validation=validation, max_nats=max_nats, max_points=max_points)
    if math.isnan(max_nats) or math.isnan(max_points):
        raise SettingError(
            f"max_nats={max_nats} and max_points={max_points} limit the loss, but no loss is above "
            "NaN: pass numbers, or math.inf for no limit."
        )
    if not strengths or min(strengths) <= 0:
        raise SettingError(f"strengths must all be positive, and at least one; got {strengths}.")
    with torch_seed(seed):
        dtype = next(make_model().parameters()).dtype
        train, held_out = _split(data, validation, dtype)
        points = (measurement or Elsewhere())(held_out[0])
    options = {"progress": False, "seed": seed, **options}

    def trial(strength: float, reference: Trial | None) -> Trial:
        with torch_seed(seed):
            model = make_model()
        objective: Objective = NegativeLogLikelihood()
        if strength:
            used = prior or UniformPrior(_classes(model, train[0]))
            objective = FunctionSpaceELBO.everywhere(
                used, len(train[1]), strength, data_strength, measurement
            )
        with state_kept(objective):  # all trials see the same points
            fit(model, objective, train, **options)
        return _scored(model, strength, held_out, points, reference, seed)

    trials = [trial(0.0, None)]
    trials += [trial(strength, trials[0]) for strength in sorted(strengths)]
    # A difference of one item is not significant, however few items there are.
    allowed = max(max_points, 100.0 / len(held_out[1]) + 1e-6)
    chosen = strongest(trials, max_nats, allowed)
    return StrengthChoice(chosen, tuple(trials), max_nats, max_points)


def strongest(trials: Sequence[Trial], max_nats: float, max_points: float) -> float:
    """Return the largest strength before the first one that exceeds a limit; 0 if none.

    Args:
        trials: weakest first, beginning with strength 0.
        max_nats: limit of the log-likelihood lost.
        max_points: limit of the accuracy lost.
    """
    chosen = 0.0
    for trial in trials:
        if trial.nats > max_nats or trial.points > max_points:
            break
        chosen = trial.strength
    return chosen


def _split(
    data: tuple[Any, Any], validation: float | tuple[Any, Any], dtype: torch.dtype
) -> tuple[tuple[Inputs, Tensor], tuple[Inputs, Tensor]]:
    """Return the data to train on and to validate on."""
    x, y = as_inputs(data[0], dtype), as_labels(data[1])
    if isinstance(validation, tuple):
        return (x, y), (as_inputs(validation[0], dtype), as_labels(validation[1]))
    items = batch_size(x)
    count = round(validation * items)
    if not 0 < count < items:
        raise DataError(
            f"validation must leave items on both sides, got {validation} of {items} items."
        )
    order = torch.randperm(items)

    def part(index: Tensor) -> tuple[Inputs, Tensor]:
        return map_tensors(lambda each: each.index_select(0, index), x), y[index]

    return part(order[count:]), part(order[:count])


def _classes(model: StochasticClassifier, x: Inputs) -> int:
    first = map_tensors(lambda part: part[:1], x)
    return predict(model, first, seed=0).probs.shape[-1]


def _scored(
    model: StochasticClassifier,
    strength: float,
    held_out: tuple[Inputs, Tensor],
    points: Any,
    reference: Trial | None,
    seed: int,
) -> Trial:
    inside = predict(model, held_out[0], seed=seed)
    outside = predict(model, points, seed=seed)
    scores = score(inside, held_out[1])
    return Trial(
        strength,
        scores.accuracy,
        scores.log_likelihood,
        scores.ece,
        detection(inside.total, outside.total).auroc,
        float(outside.confidence.mean()),
        0.0 if reference is None else reference.log_likelihood - scores.log_likelihood,
        0.0 if reference is None else reference.accuracy - scores.accuracy,
    )
