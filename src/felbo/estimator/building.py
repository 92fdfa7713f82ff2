"""Build model, prior, objective and optimiser from the arguments of the constructor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from felbo._numbers import refuse_booleans
from felbo.errors import InputTypeError, SettingError
from felbo.estimator.objective import WeightedELBO
from felbo.estimator.tables import NumberTable, TableEncoder
from felbo.measurement import (
    Batch,
    Beyond,
    Box,
    Elsewhere,
    MeasurementLike,
    MeasurementSet,
    as_measurement_set,
)
from felbo.models import (
    MAP,
    Ensemble,
    MCDropout,
    MeanField,
    Radial,
    Rank1,
    StochasticClassifier,
)
from felbo.networks import mlp
from felbo.objectives import Term
from felbo.objectives.checks import check_choice, check_weight
from felbo.priors import ClassifierPrior, DirichletPrior, Prior, UniformPrior

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MakeNetwork = Callable[[int, int], nn.Module]
Table = TableEncoder | NumberTable


def around_rows() -> Elsewhere:
    """Return points around standardised rows, at some distance from them.

    With points closer to the rows, as in the default of :class:`felbo.measurement.Elsewhere`, the
    log-likelihood of other rows was lower in the mean over many small tables; with fewer points
    beyond the rows, those that move as correlated columns do were taken for ordinary ones.
    """
    return Elsewhere([Box(scale=8.0, nearest=4.0), Beyond(2.0, 3.0)])


MEASUREMENTS: dict[str, Callable[[], MeasurementSet]] = {
    "elsewhere": around_rows,
    "box": Box,
    "batch": Batch,
}

MODELS: dict[str, Callable[[Callable[[], nn.Module], int], StochasticClassifier]] = {
    "ensemble": lambda make, members: Ensemble(make, members),
    "map": lambda make, _: MAP(make()),
    # One mask for all rows of a draw: what is predicted for a row depends on that row alone.
    "mc-dropout": lambda make, _: MCDropout(make(), mask="draw"),
    "mean-field": lambda make, _: MeanField(make()),
    "radial": lambda make, _: Radial(make()),
    "rank1": lambda make, members: Rank1(make(), members),
}


def make_model(
    kind: str,
    network: MakeNetwork | None,
    hidden: Sequence[int],
    members: int,
    inputs: int,
    classes: int,
) -> StochasticClassifier:
    """Return a model of untrained networks ``[B, inputs] -> [B, classes]``."""
    check_choice("model", kind, list(MODELS))
    if not isinstance(hidden, Sequence | np.ndarray) or not all(
        isinstance(width, Integral) for width in hidden
    ):
        raise InputTypeError(
            f"hidden takes the widths of layers, such as (50, 50); got {hidden!r}."
        )
    if network is None:
        return MODELS[kind](lambda: mlp(inputs, hidden, classes), members)
    if isinstance(network, nn.Module) or not callable(network):
        raise InputTypeError(
            "network must be a function (inputs, classes) -> nn.Module that builds a new network, "
            f"or None for a perceptron with the layers of `hidden`; got {network!r}."
        )
    return MODELS[kind](lambda: network(inputs, classes), members)


def make_prior(prior: Any, classes: Sequence[Any], table: Table) -> Prior:
    """Return a prior over the features that the network sees.

    Args:
        prior: ``"uniform"``, a :data:`felbo.priors.Prior`, or a fitted classifier.
        classes: labels in the order of the network's outputs.
        table: maps features back to the units of the table, which are those of the prior.
    """
    if isinstance(prior, str):
        check_choice("prior", prior, ["uniform"])
        return UniformPrior(len(classes))
    if isinstance(prior, DirichletPrior):
        return prior
    if hasattr(prior, "predict_proba"):
        _check_fitted(prior)
        return ClassifierPrior(_InUnits(prior, table), classes=list(classes))
    if not callable(prior):
        raise InputTypeError(
            "prior must be 'uniform', a function from points to a Dirichlet such as "
            f"felbo.DirichletPrior([1, 2]), or a fitted classifier; got {prior!r}."
        )
    if table.columns is not None and table.categories:
        raise SettingError(
            "A prior that depends on x cannot be asked about categories as numbers. Pass the "
            "fitted classifier itself, which is asked with a DataFrame."
        )
    return lambda x: prior(_in_units(x, table))


def make_objective(
    prior: Prior,
    num_data: float,
    measurement: str | MeasurementLike,
    strength: float,
    data_strength: float,
    num_samples: int | None,
) -> WeightedELBO:
    """Return ``nll + data_strength · KL on the rows + strength · KL at the measurement points``."""
    check_weight("strength", strength)
    check_weight("data_strength", data_strength)
    if isinstance(measurement, str):
        check_choice("measurement", measurement, list(MEASUREMENTS))
        places = MEASUREMENTS[measurement]()
    else:
        places = as_measurement_set(measurement)
    terms = [Term(Batch(), data_strength), Term(places, strength)]
    return WeightedELBO(
        prior,
        max(1, round(num_data)),
        measurement=[term for term in terms if term.weight] or terms[:1],
        kl_weight=1.0,
        num_samples=num_samples,
    )


def make_optimizer(
    model: StochasticClassifier, learning_rate: float, weight_decay: float
) -> Optimizer:
    """Return Adam with L2 decay of the weights."""
    refuse_booleans(learning_rate=learning_rate)
    if not 0.0 < learning_rate < math.inf:
        raise SettingError(f"learning_rate must be a positive number, got {learning_rate}.")
    check_weight("weight_decay", weight_decay)
    return Adam(model.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True)


@cache
def fabric_for(device: str) -> Fabric:
    """Return the device to train on; kept, since finding it takes longer than a short training."""
    from lightning_fabric import Fabric

    return Fabric(accelerator=device, devices=1)


class _InUnits:
    """A classifier that maps features back to the units of the table before it predicts."""

    def __init__(self, classifier: Any, table: Table) -> None:
        self.classifier, self.table = classifier, table
        self.classes_ = classifier.classes_

    def predict_proba(self, features: Any) -> Any:
        return self.classifier.predict_proba(self.table.inverse(features))


def _in_units(x: Tensor, table: Table) -> Tensor:
    values = np.asarray(table.inverse(x.detach().cpu().numpy()))
    return torch.as_tensor(values, dtype=x.dtype, device=x.device)


def _check_fitted(classifier: Any) -> None:
    try:
        check_is_fitted(classifier)
    except NotFittedError as error:
        raise NotFittedError(
            f"The prior {type(classifier).__name__} is not fitted: fit it first. Where sklearn "
            "clones this classifier, as in GridSearchCV and cross_val_score, pass the prior as "
            "sklearn.frozen.FrozenEstimator(prior): other copies are unfitted."
        ) from error
