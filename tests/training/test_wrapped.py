"""Models inside wrappers train as the models themselves."""

import copy

import pytest
import torch
from lightning_fabric import Fabric
from torch.optim.swa_utils import AveragedModel

import felbo

from .small import data, fit, modes, network, normalised, weights


def test_compiled_models_train_as_the_model():
    model = felbo.MCDropout(normalised(), evaluation_samples=2)
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="eager")
    before = modes(model)
    history = fit(compiled, data(), seed=0)
    expected = fit(twin, data(), seed=0)
    assert history.total == pytest.approx(expected.total, rel=1e-5)
    torch.testing.assert_close(weights(model), weights(twin))
    assert modes(model) == before
    assert compiled.training
    probs = felbo.predict(compiled, data()[0], seed=1).probs
    torch.testing.assert_close(probs, felbo.predict(twin, data()[0], seed=1).probs)


def test_an_average_is_kept_along_a_training():
    model = felbo.MAP(network())
    average, seen = AveragedModel(model), []

    def update(*_):
        average.update_parameters(model)
        seen.append(weights(model))

    fit(model, data(), on_epoch=update)
    torch.testing.assert_close(weights(average.module), torch.stack(seen).mean(0))


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "64-true"])
def test_fabric_decides_on_device_and_precision(precision):
    x, y = data()
    model = felbo.MAP(normalised())
    fabric = Fabric(accelerator="cpu", devices=1, precision=precision)
    history = fit(model, (x, y), fabric=fabric, batch_size=16, epochs=20, learning_rate=0.02)
    assert history.nll[-1] < 0.7 * history.nll[0]
    dtype = torch.float64 if precision == "64-true" else torch.float32
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    assert felbo.score(felbo.predict(model, x.to(dtype)), y).accuracy > 85
