"""Validation scores are those of a prediction, and leave no trace in the training."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo.training import ValidationScores

from .small import data, elbo, fit, network, normalised, refused, state

HELD_OUT = data(130)


def forms(x, y):
    return {
        "tensors": (x, y),
        "arrays": (x.double().numpy(), y.numpy().astype(np.int16)),
        "frames": (pd.DataFrame(x.numpy(), columns=["a", "b"]), pd.Series(y.numpy())),
        "dataset": TensorDataset(x, y),
        "loader": DataLoader(TensorDataset(x, y), 33, shuffle=True),
    }


@pytest.mark.parametrize("form", forms(*HELD_OUT))
def test_scores_are_those_of_the_prediction_and_the_objective(form):
    model, objective = felbo.Ensemble(normalised, members=3), elbo()
    history = fit(model, data(), objective, batch_size=16, validation=forms(*HELD_OUT)[form])
    assert len(history.validation) == 3
    loss, nll, accuracy = history.validation[-1]
    x, y = HELD_OUT
    expected = felbo.score(felbo.predict(model, x), y)
    assert nll == pytest.approx(-expected.log_likelihood, rel=1e-5)
    assert accuracy == pytest.approx(expected.accuracy)
    with torch.no_grad():
        assert loss == pytest.approx(float(objective(model.eval(), x, y).total), rel=1e-4)
    assert history.validation[0] != history.validation[-1]


def test_random_models_are_scored_with_the_same_draws_in_every_epoch():
    model = felbo.MCDropout(network(), rate=0.5)

    def still(parameters):
        return torch.optim.SGD(parameters, lr=0.0)

    history = fit(model, data(), optimizer=still, validation=HELD_OUT)
    assert len(set(history.validation)) == 1


def points(generator):
    return felbo.measurement.Mixture(
        felbo.measurement.Batch(), felbo.measurement.Elsewhere(generator=generator)
    )


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("kind", ["loader", "tensors"])
def test_validation_leaves_no_trace_in_the_training(seed, kind):
    """Neither in weights and statistics, nor in torch's generator and those of the points."""
    start = felbo.MCDropout(normalised(), rate=0.3)
    held_out = forms(*HELD_OUT)[kind]
    found = []
    for validation in (None, held_out):
        model, generator = copy.deepcopy(start), torch.Generator().manual_seed(5)
        torch.manual_seed(7)
        objective = elbo(measurement=points(generator))
        history = fit(model, data(), objective, batch_size=16, validation=validation, seed=seed)
        found.append((history.total, state(model), torch.rand(1), generator.get_state()))
    assert found[0][0] == found[1][0]
    for name, value in found[0][1].items():
        assert torch.equal(value, found[1][1][name])
    assert torch.equal(found[0][2], found[1][2])
    assert torch.equal(found[0][3], found[1][3])


def test_a_stateful_objective_does_not_advance():
    model, objective = felbo.ConcentrationNetwork(network()), felbo.Evidential(annealing_steps=10)
    fit(model, data(), objective, validation=HELD_OUT)
    assert objective.step == 3


def test_data_that_cannot_be_validated_on_are_refused_before_training():
    model, (x, y) = felbo.MAP(network()), HELD_OUT
    refused(model, data(), TypeError, "validation must be a DataLoader", validation="data")
    refused(model, data(), TypeError, "validation must be .* got str", validation="a fifth")
    refused(model, data(), ValueError, r"one label per input, shape \[130\]", validation=(x, y[:7]))
    refused(model, data(), ValueError, "from 0 to 7", validation=(x, torch.where(y > 0, 7, 0)))
    refused(model, data(), TypeError, "not integers", validation=(x, y + 0.5))


def test_validation_data_that_hold_nan_are_named():
    x, y = HELD_OUT[0].clone(), HELD_OUT[1]
    x[3] = torch.nan
    with pytest.raises(FloatingPointError, match="validation inputs hold NaN"):
        fit(felbo.MAP(network()), data(), validation=(x, y))


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_precision_of_fabric_holds_for_validation(precision):
    from lightning_fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1, precision=precision)
    model = felbo.MAP(normalised())
    options = {"batch_size": 16, "epochs": 10, "learning_rate": 0.02}
    history = fit(model, data(), fabric=fabric, validation=HELD_OUT, **options)
    assert history.validation[-1].nll < history.validation[0].nll


def test_compiled_models_are_validated():
    model = felbo.MAP(network())
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="eager")
    history = fit(compiled, data(), validation=HELD_OUT)
    expected = fit(twin, data(), validation=HELD_OUT)
    assert history.validation[-1] == pytest.approx(expected.validation[-1], rel=1e-5)


def test_a_function_may_score_the_model():
    model, modes = felbo.MAP(network()), []
    losses = iter([3.0, 1.0, 2.0, 2.0, 0.0])

    def score():
        modes.append(model.training)
        return ValidationScores(next(losses), 0.0, 50.0)

    history = fit(model, data(), validation=score, monitor="loss", patience=2, epochs=5)
    assert [scores.loss for scores in history.validation] == [3.0, 1.0, 2.0, 2.0]
    assert history.best.number == 1
    assert modes == [False] * 4
