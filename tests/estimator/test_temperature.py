"""Temperatures by rows held out."""

import numpy as np
import pytest
import torch
from torch import nn

import felbo
from felbo.estimator import fitting
from felbo.estimator.rows import Rows
from felbo.estimator.temperature import GRID, TemperatureCurves, most_probable_temperature

from .quick import Killed, killing_points, quick

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
Y = (X @ [1.0, 2.0, 0.0] + RNG.normal(size=240) > 0).astype(int)


class Given(felbo.MAP):
    """A model of which the logits are given."""

    def __init__(self, logits):
        super().__init__(nn.Linear(1, 1))
        self.logits = torch.as_tensor(logits, dtype=torch.float32)

    def forward(self, x, num_samples=None):
        return self.logits


@pytest.fixture
def rows():
    return Rows(
        np.zeros((4, 1), np.float32), np.array([0, 1, 1, 0]), np.array([1.0, 3.0, 0.5, 2.0])
    )


def test_a_curve_is_the_weighted_likelihood_of_the_mean_of_tempered_draws(rows):
    logits = np.random.default_rng(1).normal(size=(3, 4, 2)).astype(np.float32)
    curves = TemperatureCurves(Given(logits), rows, seed=0)
    curves.step()
    for log_temperature, found in zip(GRID, curves.curves[0], strict=True):
        powers = np.exp(logits / np.exp(log_temperature))
        probs = (powers / powers.sum(-1, keepdims=True)).mean(0)[np.arange(4), rows.labels]
        assert found == pytest.approx(-(rows.weights * np.log(probs)).sum(), rel=1e-5)


@pytest.mark.parametrize("interrupted", [0, 1, 40])
def test_late_epochs_count_most(rows, interrupted):
    # With logits e after epoch e the running mean is (5 e + 1) / 6, a sixth of e behind.
    model = Given(np.zeros((1, 4, 2)))
    curves = TemperatureCurves(model, rows, seed=0)
    for epoch in range(1, 61):
        if epoch == interrupted + 1:
            state = curves.state_dict()
            curves = TemperatureCurves(model, rows, seed=0)
            curves.load_state_dict(state)
        model.logits = torch.full((1, 4, 2), float(epoch))
        curves.step()
        torch.testing.assert_close(curves.mean, torch.full((1, 4, 2), (5 * epoch + 1) / 6))
    assert len(curves.curves) == 60


def test_the_posterior_of_normal_likelihoods_is_known():
    # Precisions add up: 25 of the prior, 75 and 100 of the likelihoods.
    first = 0.5 * 75 * (GRID - 0.4) ** 2
    second = 0.5 * 100 * (GRID + 0.1) ** 2
    expected = np.exp((75 * 0.4 - 100 * 0.1) / 200)
    found = most_probable_temperature([first.tolist(), second.tolist()])
    assert found == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("truth", "tolerance"), [(0.7, 0.02), (1.0, 0.02), (1.6, 0.05)])
def test_many_rows_find_the_temperature_that_labels_were_drawn_with(truth, tolerance):
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(20000, 4, generator=generator)
    labels = torch.multinomial((logits / truth).softmax(-1), 1, generator=generator)[:, 0]
    rows = Rows(np.zeros((20000, 1), np.float32), labels.numpy(), np.ones(20000))
    curves = TemperatureCurves(Given(logits[None]), rows, seed=0)
    curves.step()
    assert most_probable_temperature(curves.curves) == pytest.approx(truth, abs=tolerance)


def test_rows_that_are_all_classified_correctly_have_a_temperature_above_zero(rows):
    logits = np.eye(2)[rows.labels][None] * 3.0
    curves = TemperatureCurves(Given(logits), rows, seed=0)
    curves.step()
    assert 0.9 < most_probable_temperature(curves.curves) < 1.0


def test_at_most_so_many_rows_are_looked_at():
    rows = Rows(np.arange(9, dtype=np.float32)[:, None], np.arange(9), np.arange(9.0))
    some = rows.some(4, seed=0)
    assert len(some.labels) == len(set(some.labels)) == 4
    assert some.features[:, 0].tolist() == some.labels.tolist() == some.weights.tolist()
    assert rows.some(9, seed=0) is rows
    assert rows.some(4, seed=1).labels.tolist() != some.labels.tolist()


def test_a_temperature_needs_many_rows_held_out(monkeypatch):
    monkeypatch.setattr(fitting, "ENOUGH_TO_CALIBRATE", 240)
    settings = {"epochs": 3, "early_stopping": True}
    assert quick(**settings).fit(X, Y).temperature_ != 1.0
    assert quick(**settings).fit(X[1:], Y[1:]).temperature_ == 1.0
    assert quick(**settings, calibrate=False).fit(X, Y).temperature_ == 1.0
    assert quick(epochs=3).fit(X, Y).temperature_ == 1.0


def test_predictions_have_the_temperature_and_the_weights_do_not(monkeypatch):
    monkeypatch.setattr(fitting, "ENOUGH_TO_CALIBRATE", 240)
    monkeypatch.setattr(fitting, "MANY_HELD_OUT", 240)  # as many splits without a temperature
    settings = {"epochs": 3, "early_stopping": True}
    plain = quick(**settings, calibrate=False).fit(X, Y)
    tempered = quick(**settings).fit(X, Y)
    temperature = tempered.temperature_
    with torch.no_grad():
        logits = plain.learner_.model(torch.from_numpy(plain.learner_.table.transform(X)).double())
    expected = (logits / temperature).softmax(-1).mean(0)
    np.testing.assert_allclose(tempered.predict_proba(X), expected, rtol=1e-6)
    assert tempered.n_iter_ == plain.n_iter_


def test_the_temperature_is_that_of_all_splits_at_the_best_epoch(monkeypatch):
    monkeypatch.setattr(fitting, "ENOUGH_TO_CALIBRATE", 240)
    asked = []

    def recorded(curves):
        asked.extend(curves)
        return 2.0

    monkeypatch.setattr(fitting, "most_probable_temperature", recorded)
    classifier = quick(epochs=6, early_stopping=True, learning_rate=0.1, patience=2).fit(X, Y)
    best = int(np.argmax(classifier.validation_scores_))
    assert classifier.temperature_ == 2.0
    assert len(asked) == 5
    rows = classifier._rows(X, Y, np.ones(240))
    for fold, curve in enumerate(asked):
        part = rows.split(0.2, classifier.learner_.seed, fold)
        search = classifier._search(*part, True, None)
        for _ in range(best + 1):
            next(search.training)
        assert search.temperatures.curves[best] == pytest.approx(curve, rel=1e-5)


def test_an_easy_table_of_many_classes_is_predicted_better():
    rng = np.random.default_rng(0)
    means, labels = 2.5 * rng.normal(size=(8, 6)), rng.integers(8, size=3000)
    rows = means[labels] + rng.normal(size=(3000, 6))
    scores = []
    for calibrate in (False, True):
        settings = {"calibrate": calibrate, "early_stopping": True, "epochs": 8, "strength": 0.1}
        probs = quick(**settings).fit(rows[:1000], labels[:1000]).predict_proba(rows[1000:])
        scores.append(felbo.score(torch.from_numpy(probs), torch.from_numpy(labels[1000:])))
    before, after = scores
    assert after.log_likelihood > before.log_likelihood + 0.01
    assert after.ece < 0.7 * before.ece


def test_an_interrupted_fit_ends_with_the_same_temperature(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "SECONDS", 0.0)
    monkeypatch.setattr(fitting, "ENOUGH_TO_CALIBRATE", 240)
    points, left = killing_points()
    settings = {"epochs": 4, "measurement": points, "early_stopping": True, "batch_size": 64}
    whole = quick(**settings).fit(X, Y)
    for steps in (30, 25, 20, 10, 3):
        left[0] = steps
        with pytest.raises(Killed):
            quick(**settings).fit(X, Y, checkpoint=tmp_path)
    left[0] = 0
    resumed = quick(**settings).fit(X, Y, checkpoint=tmp_path)
    assert resumed.temperature_ == whole.temperature_ != 1.0
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_whole_weights_count_as_equal_rows(monkeypatch):
    monkeypatch.setattr(fitting, "ENOUGH_TO_CALIBRATE", 240)
    settings = {"epochs": 3, "early_stopping": True}
    weighted = quick(**settings).fit(X[:120], Y[:120], sample_weight=np.full(120, 2))
    twice = quick(**settings).fit(np.repeat(X[:120], 2, 0), np.repeat(Y[:120], 2))
    assert weighted.temperature_ == twice.temperature_ != 1.0


def test_training_goes_on_with_the_temperature(monkeypatch):
    monkeypatch.setattr(fitting, "ENOUGH_TO_CALIBRATE", 240)
    classifier = quick(epochs=3, early_stopping=True).fit(X, Y)
    before, loss = classifier.temperature_, classifier.loss_curve_[-1]
    for _ in range(5):
        classifier.partial_fit(X, Y)
    assert classifier.temperature_ == pytest.approx(before, rel=1e-6)
    assert classifier.loss_curve_[-1] < loss
