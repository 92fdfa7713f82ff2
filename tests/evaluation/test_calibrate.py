import copy
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo.evaluation.calibrate import best_temperature

from .samples import seeded


class Draws(felbo.StochasticClassifier):
    """M draws that are given as inputs ``[B, M, K]``."""

    def forward(self, x, num_samples=None):
        return x.transpose(0, 1)


def drawn(draws=3, size=400, classes=3):
    """Logits of draws, and labels that follow their mean at a temperature of 2."""
    common = 2 * torch.randn(1, size, classes, generator=seeded()).double()
    logits = common + torch.randn(draws, size, classes, generator=seeded(1)).double()
    mean = (logits / 2).softmax(-1).mean(0)
    return logits, torch.multinomial(mean, 1, generator=seeded(2))[:, 0]


def loss(logits, labels, temperature):
    probs = (logits / temperature).softmax(-1).mean(0)
    return -probs.gather(-1, labels[:, None]).log().mean()


def assert_best(temperature, logits, labels):
    """The slope is 0 there, and no temperature of a grid is better."""
    t = torch.tensor(float(temperature), dtype=torch.float64, requires_grad=True)
    here = loss(logits, labels, t)
    (slope,) = torch.autograd.grad(here, t)
    assert abs(float(slope)) < 1e-5
    assert min(loss(logits, labels, other) for other in np.geomspace(0.05, 50, 60)) >= here - 1e-12


@pytest.mark.parametrize(("gap", "right"), [(2.0, 75), (10.0, 90), (0.01, 60)])
def test_closed_form_for_two_classes(gap, right):
    """All logits (g, 0), a share p right: T = g / log(p / (1 − p))."""
    logits = torch.tensor([gap, 0.0]).double().expand(1, 100, 2)
    labels = (torch.arange(100) >= right).long()
    odds = right / (100 - right)
    assert best_temperature(logits, labels) == pytest.approx(gap / math.log(odds), rel=1e-6)


@pytest.mark.parametrize("draws", [1, 3])
def test_no_other_temperature_is_better(draws):
    logits, labels = drawn(draws)
    found = best_temperature(logits, labels)
    assert_best(found, logits, labels)
    model = felbo.calibrate(Draws(), (logits.transpose(0, 1), labels))
    assert float(model.temperature) == pytest.approx(found)
    assert 1.5 < found < 3.0


@pytest.mark.parametrize("factor", [1e-3, 0.5, 3.0, 1e4])
@pytest.mark.parametrize("of", ["draws", "mean"])
def test_logits_times_c_have_c_times_the_temperature(factor, of):
    logits, labels = drawn()
    if of == "mean":  # of one function; the mean of draws changes with their scale
        logits = logits[:1]
    temperature = [
        float(felbo.calibrate(Draws(), (scale * logits.transpose(0, 1), labels), of=of).temperature)
        for scale in (1.0, factor)
    ]
    assert temperature[1] == pytest.approx(factor * temperature[0], rel=1e-5)


def test_of_the_mean_is_the_best_power_of_the_mean():
    logits, labels = drawn()
    model = felbo.calibrate(Draws(), (logits.transpose(0, 1), labels), of="mean")
    mean = logits.softmax(-1).mean(0, keepdim=True).log()
    assert_best(model.temperature, mean, labels)
    assert isinstance(model, felbo.TemperedMean)
    prediction = felbo.predict(model, logits.transpose(0, 1))
    assert not prediction.is_random
    expected = (mean[0] / model.temperature).softmax(-1)
    torch.testing.assert_close(prediction.probs, expected)


def test_it_repairs_an_overconfident_network():
    logits = torch.randn(3000, 5, generator=seeded())
    labels = torch.distributions.Categorical(logits=logits).sample()
    model = felbo.MAP(nn.Identity())
    held_out, new = (4 * logits[:1500], labels[:1500]), (4 * logits[1500:], labels[1500:])
    calibrated = felbo.calibrate(model, held_out)
    assert float(calibrated.temperature) == pytest.approx(4.0, rel=0.1)
    before, after = (felbo.score(felbo.predict(m, new[0]), new[1]) for m in (model, calibrated))
    assert after.ece < 0.05 < 0.2 < before.ece
    assert after.log_likelihood > before.log_likelihood
    assert after.accuracy == before.accuracy


def test_the_model_is_shared_and_left_as_it_is():
    model = felbo.MCDropout(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)))
    x = torch.randn(60, 2)
    # The model's own classes, but for every fifth item.
    y = (model(x)[0].argmax(-1) + (torch.arange(60) % 5 == 0)) % 3
    before, modes = copy.deepcopy(model.state_dict()), [m.training for m in model.modules()]
    calibrated = felbo.calibrate(model, (x, y), seed=0)
    assert calibrated.model is model
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def noisy_problem():
    x = torch.randn(100, 2, generator=seeded())
    return x, (x[:, 0] + torch.randn(100, generator=seeded(1)) > 0).long()


def test_loaders_arrays_and_wrappers():
    x, y = noisy_problem()
    model = felbo.Ensemble(lambda: felbo.networks.mlp(2, (16,), 2), members=3)
    felbo.fit(model, felbo.NegativeLogLikelihood(), (x, y), epochs=20, progress=False)
    found = [
        float(felbo.calibrate(m, data, batch_size=30).temperature)
        for m, data in (
            (model, (x, y)),
            (model, (x.numpy(), y.numpy())),
            (model, DataLoader(TensorDataset(x, y), 50, shuffle=True)),
            (torch.optim.swa_utils.AveragedModel(model), (x, y)),
        )
    ]
    assert found == pytest.approx([found[0]] * 4, rel=1e-5)


def test_draws_follow_the_seed_and_their_number():
    x, y = noisy_problem()
    model = felbo.MCDropout(felbo.networks.mlp(2, (16,), 2), 0.5)
    felbo.fit(model, felbo.NegativeLogLikelihood(), (x, y), epochs=20, progress=False)
    first, same, other, more = (
        float(felbo.calibrate(model, (x, y), seed=seed, num_samples=draws).temperature)
        for seed, draws in ((0, 4), (0, 4), (1, 4), (0, 9))
    )
    assert first == same
    assert len({first, other, more}) == 3


def test_a_concentration_keeps_its_precision():
    model = felbo.ConcentrationNetwork(nn.Identity())
    logits, labels = drawn(1)
    calibrated = felbo.calibrate(model, (logits[0], labels))
    before, after = (felbo.predict(m, logits[0]) for m in (model, calibrated))
    torch.testing.assert_close(after.precision, before.precision)
    expected = model.log_concentration(logits[0]) / calibrated.temperature
    torch.testing.assert_close(after.probs, expected.softmax(-1))


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.eye(3)[None], [0, 1, 2], "misclassifies no"),
        (torch.eye(3)[None], [1, 2, 0], "no better than chance"),
        (torch.ones(1, 3, 3), [0, 1, 2], "all equal"),
        (torch.full((1, 3, 3), torch.nan), [0, 1, 2], "not finite"),
    ],
)
def test_there_may_be_no_best_temperature(logits, labels, message):
    with pytest.raises(ValueError, match=message):
        best_temperature(logits, torch.tensor(labels))


@pytest.mark.parametrize(
    ("data", "settings", "error", "message"),
    [
        ((torch.zeros(0, 3), torch.zeros(0).long()), {}, ValueError, "are empty"),
        ((2 * torch.eye(3), torch.tensor([0, 1, 3])), {}, ValueError, "0 … 2"),
        ((torch.eye(3) * torch.nan, torch.arange(3)), {}, ValueError, "not finite"),
        ((torch.eye(3), torch.arange(3)), {"of": "logits"}, ValueError, "'draws', 'mean'"),
        (torch.eye(3), {}, TypeError, "pair"),
    ],
)
def test_bad_input_is_refused(data, settings, error, message):
    with pytest.raises(error, match=message):
        felbo.calibrate(felbo.MAP(nn.Identity()), data, **settings)


def test_plain_networks_are_refused():
    with pytest.raises(TypeError, match=r"felbo\.MAP\(network\)"):
        felbo.calibrate(nn.Linear(2, 2), (torch.zeros(3, 2), torch.zeros(3)))
