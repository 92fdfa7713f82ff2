"""True and False are no counts and no weights, though Python takes them for 1 and 0."""

import math

import numpy as np
import pytest
import torch

import felbo
from felbo import measurement
from felbo._numbers import refuse_booleans, whole_number
from felbo.estimator.stopping import mean_bounds
from felbo.evaluation import attacks
from felbo.networks import mlp
from felbo.priors import ModelPrior
from felbo.training import Checkpoint

X = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
Y = torch.arange(6) % 3
PRIOR = felbo.UniformPrior(3)


def network():
    return mlp(2, (4,), 3)


def model():
    return felbo.MCDropout(network())


def objective(**settings):
    return felbo.FunctionSpaceELBO(PRIOR, **{"num_data": 6, **settings})


def fit(**settings):
    return felbo.fit(model(), objective(), (X, Y), **{"epochs": 1, **settings})


def classifier(**settings):
    return felbo.FunctionSpaceClassifier(**{"epochs": 1, **settings}).fit(X.numpy(), Y.numpy())


CALLS = {
    "FunctionSpaceELBO": (objective, ["num_data", "kl_weight", "batch_size", "smoothing"]),
    "everywhere": (
        lambda **s: felbo.FunctionSpaceELBO.everywhere(PRIOR, 6, **s),
        [
            "strength",
            "data_strength",
        ],
    ),
    "WeightSpaceELBO": (
        lambda **s: felbo.WeightSpaceELBO(**{"num_data": 6, **s}),
        [
            "num_data",
            "temperature",
        ],
    ),
    "BeliefMatching": (lambda **s: felbo.BeliefMatching(PRIOR, **s), ["kl_weight"]),
    "Evidential": (felbo.Evidential, ["annealing_steps"]),
    "draws of an objective": (lambda **s: objective(**s)(model(), X, Y), ["num_samples"]),
    "fit": (
        fit,
        [
            "epochs",
            "accumulate",
            "clip_norm",
            "learning_rate",
        ],
    ),
    "patience": (lambda **s: fit(validation=(X, Y), **s), ["patience"]),
    "Checkpoint": (lambda **s: Checkpoint("folder", **s), ["seconds"]),
    "predict": (
        lambda **s: felbo.predict(model(), X, **s),
        [
            "num_samples",
            "num_data",
            "batch_size",
            "smoothing",
        ],
    ),
    "pgd": (
        lambda **s: attacks.pgd(model(), X, Y, **{"epsilon": 0.1, **s}),
        [
            "epsilon",
            "steps",
            "step_size",
            "restarts",
            "batch_size",
        ],
    ),
    "call": (lambda **s: model()(X, **s), ["num_samples"]),
    "MCDropout": (lambda **s: felbo.MCDropout(network(), **s), ["rate", "evaluation_samples"]),
    "Ensemble": (lambda **s: felbo.Ensemble(network, **s), ["members"]),
    "Rank1": (lambda **s: felbo.Rank1(network(), **s), ["members", "rho", "prior_std"]),
    "MeanField": (lambda **s: felbo.MeanField(network(), **s), ["evaluation_samples", "rho"]),
    "Radial": (lambda **s: felbo.Radial(network(), **s), ["evaluation_samples", "prior_std"]),
    "SubnetworkLaplace": (
        lambda **s: felbo.SubnetworkLaplace(network(), **s),
        [
            "size",
            "evaluation_samples",
        ],
    ),
    "mlp": (
        lambda **s: mlp(**{"inputs": 2, "hidden": (4,), "classes": 3, **s}),
        [
            "inputs",
            "classes",
        ],
    ),
    "UniformPrior": (felbo.UniformPrior, ["num_classes"]),
    "ModelPrior": (lambda **s: ModelPrior(model(), **s), ["max_precision", "smoothing"]),
    "Grid": (
        lambda **s: measurement.Grid([(0.0, 3.0)], **{"step": 1.0, **s}),
        [
            "step",
            "max_points",
        ],
    ),
    "Pool": (lambda **s: measurement.Pool(X, **s), ["size"]),
    "Rolled": (measurement.Rolled, ["max_shift"]),
    "ShuffledPatches": (measurement.ShuffledPatches, ["patch"]),
    "PhaseNoise": (measurement.PhaseNoise, ["strength"]),
    "WorstCase": (
        lambda **s: measurement.WorstCase(measurement.Elsewhere(), **s),
        [
            "steps",
            "size",
        ],
    ),
    "patience of a classifier": (lambda **s: mean_bounds([], **s), ["patience"]),
    "FunctionSpaceClassifier": (
        classifier,
        [
            "epochs",
            "batch_size",
            "members",
            "learning_rate",
            "weight_decay",
            "strength",
            "data_strength",
        ],
    ),
}
COUNTS = {
    "fit": ["epochs", "accumulate", "batch_size"],
    "patience": ["patience"],
    "predict": ["num_samples", "batch_size"],
    "pgd": ["steps", "restarts", "batch_size"],
    "MCDropout": ["evaluation_samples"],
    "Ensemble": ["members"],
    "Rank1": ["members"],
    "MeanField": ["evaluation_samples"],
    "Radial": ["evaluation_samples"],
    "SubnetworkLaplace": ["size", "evaluation_samples"],
    "WorstCase": ["steps"],
    "FunctionSpaceClassifier": ["epochs", "batch_size", "members"],
}
SETTINGS = [(call, name) for call, (_, names) in CALLS.items() for name in names]


@pytest.mark.parametrize(("call", "name"), SETTINGS)
@pytest.mark.parametrize("value", [True, False, np.True_], ids=repr)
def test_a_boolean_is_refused_where_a_number_is_expected(call, name, value):
    with pytest.raises(felbo.errors.SettingError, match=f"{name}.* must be a number, got {value}"):
        CALLS[call][0](**{name: value})


@pytest.mark.parametrize(
    ("call", "name"), [(call, name) for call, names in COUNTS.items() for name in names]
)
@pytest.mark.parametrize("value", [0, -1, 2.5, math.nan, math.inf], ids=repr)
def test_a_count_is_a_whole_number_of_at_least_one(call, name, value):
    expected = rf"{name} must be a whole number of at least 1, got {value}\."
    with pytest.raises(felbo.errors.SettingError, match=expected):
        CALLS[call][0](**{name: value})


def test_a_count_of_any_type_of_number_is_taken_as_an_int():
    for value in (3, 3.0, np.int64(3), np.float32(3)):
        assert whole_number("k", value) == 3
        assert type(whole_number("k", value)) is int
    assert len(fit(batch_size=np.int64(2), progress=False)) == 1
    with pytest.raises(felbo.errors.SettingError, match=r"k must be a whole number .* got three\."):
        whole_number("k", "three")


def test_numbers_and_other_values_are_left_alone():
    refuse_booleans(a=1, b=0.0, c=None, d="batch", e=np.int64(1), f=(True,))


def test_the_message_names_the_number():
    with pytest.raises(felbo.errors.SettingError, match=r"^k must .* got False: write 0 if that"):
        refuse_booleans(j=2, k=False)
