import importlib

import pytest
import torch

import felbo
from felbo.evaluation import calibration_error, quality, risk_coverage

from .samples import overconfident, seeded


@pytest.fixture(scope="module")
def sample():
    probs, labels = overconfident(size=500)
    other, _ = overconfident(size=500, seed=1)
    return felbo.predict(torch.stack([0.8 * probs + 0.2 * other, probs])), labels


@pytest.fixture(scope="module")
def found(sample):
    return quality(*sample, resamples=200, generator=seeded())


def test_values_are_those_of_score_and_of_the_calibration_errors(sample, found):
    prediction, labels = sample
    scores = felbo.score(prediction, labels)
    assert found.size == 500
    assert found.accuracy.value == pytest.approx(scores.accuracy, abs=1e-4)
    assert found.log_likelihood.value == pytest.approx(scores.log_likelihood)
    assert found.brier.value == pytest.approx(scores.brier)
    for name, settings in {
        "ece": {},
        "ece_mass": {"binning": "mass"},
        "ece_class": {"event": "class"},
        "rms_calibration": {"norm": "l2"},
        "max_calibration": {"norm": "max"},
    }.items():
        expected = calibration_error(prediction, labels, **settings)
        assert found.estimates[name].value == pytest.approx(expected), name


def test_a_resample_is_scored_as_if_it_were_the_data(sample):
    prediction, labels = sample
    module = importlib.import_module("felbo.evaluation.quality")
    taken = torch.randint(500, (500,), generator=seeded(2))
    weights = torch.bincount(taken, minlength=500).double()[None]
    values = module._means(prediction.probs, labels, 1e-4)(weights)
    values |= module._calibration_errors(prediction.probs, labels, 15)(weights)
    probs, repeated = prediction.probs[taken], labels[taken]
    scores = felbo.score(probs, repeated)
    assert float(values["accuracy"]) == pytest.approx(scores.accuracy)
    assert float(values["log_likelihood"]) == pytest.approx(scores.log_likelihood)
    assert float(values["brier"]) == pytest.approx(scores.brier)
    assert float(values["ece"]) == pytest.approx(scores.ece, abs=1e-6)
    expected = calibration_error(probs, repeated, event="class")
    assert float(values["ece_class"]) == pytest.approx(expected)


CALIBRATION = ("ece", "ece_mass", "ece_class", "rms_calibration", "max_calibration")


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_intervals_of_calibration_errors_hold_the_error_of_the_model(scale):
    """Of a calibrated model as often as the level says, of an overconfident one no less often."""
    generator, trials = seeded(), 100
    many = 1.5 * torch.randn(100_000, 3, generator=generator, dtype=torch.float64)
    law, probs = many.softmax(-1), (scale * many).softmax(-1)
    happened = law.gather(-1, probs.argmax(-1, keepdim=True))
    module = importlib.import_module("felbo.evaluation.calibration")
    # The frequency of an event in place of the event: an error without noise.
    width = module.cells(probs, probs.argmax(-1))._replace(gap=happened - probs.amax(-1)[:, None])
    ones = torch.ones(1, len(many), dtype=torch.float64)
    truth = {"ece": float(module.error_of(width, ones, "l1"))}
    truth["rms_calibration"] = float(module.error_of(width, ones, "l2"))
    held = dict.fromkeys(truth, 0)
    for _ in range(trials):
        logits = 1.5 * torch.randn(300, 3, generator=generator, dtype=torch.float64)
        labels = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
        prediction = felbo.predict((scale * logits).softmax(-1)[None])
        found = quality(prediction, labels, resamples=200, generator=generator)
        for name, error in truth.items():
            held[name] += found.estimates[name].low <= error <= found.estimates[name].high
        for name in CALIBRATION:
            estimate = found.estimates[name]
            assert 0.0 <= estimate.low <= estimate.value <= estimate.high <= 1.0, name
    for name, times in held.items():
        assert times / trials >= 0.88, name
        assert scale > 1.0 or times < trials, name  # intervals that hold everything say nothing


def test_intervals_lie_around_means(found):
    for name in ("accuracy", "log_likelihood", "brier"):
        estimate = found.estimates[name]
        assert estimate.low < estimate.value < estimate.high, name
    assert len(found.estimates) == 8


def test_an_interval_of_accuracy_has_its_binomial_width(sample):
    found = quality(*sample, resamples=4000, generator=seeded()).accuracy
    share = found.value / 100
    width = 2 * 196 * (share * (1 - share) / 500) ** 0.5
    assert found.high - found.low == pytest.approx(width, rel=0.06)


def test_selective_prediction_by_every_score(sample, found):
    prediction, labels = sample
    assert list(found.selective) == ["confidence", "total", "epistemic", "precision"]
    curve = risk_coverage(prediction.epistemic, prediction.labels == labels)
    selective = found.selective["epistemic"]
    assert selective.aurc == curve.aurc
    assert selective.augrc == curve.augrc
    assert selective.accuracy_at == {c: curve.accuracy_at(c) for c in (0.8, 0.9, 0.95)}
    assert selective.coverage_at == {a: curve.coverage_at(a) for a in (95.0, 98.0, 99.0)}


def test_perfect_predictions():
    labels = torch.arange(6) % 3
    found = quality(felbo.predict(torch.eye(3)[labels][None]), labels, resamples=20, smoothing=0.0)
    assert found.accuracy.value == found.accuracy.low == 100.0
    for name in ("log_likelihood", "brier", "ece", "ece_mass", "ece_class", "max_calibration"):
        assert found.estimates[name].value == pytest.approx(0.0, abs=1e-12), name


def test_a_label_of_probability_zero_needs_smoothing():
    prediction = felbo.predict(torch.eye(3)[None])
    with pytest.raises(ValueError, match="smoothing above 0"):
        quality(prediction, torch.tensor([1, 1, 2]), smoothing=0.0)
