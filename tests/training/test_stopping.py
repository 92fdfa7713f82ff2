"""Early stopping: what decides, when it ends, and which weights remain."""

import copy

import pytest
import torch

import felbo
from felbo.training.history import ValidationScores
from felbo.training.stopping import EarlyStopping

from .small import data, fit, network, normalised, refused, state

NLL = [0.9, 0.5, 0.6, 0.5, 0.4, 0.7, 0.8]


def stops_at(monitor, scores, patience):
    """The epoch after which it stops, and the best one."""
    stopping, best = EarlyStopping(network(), monitor, patience), None
    for number, score in enumerate(scores):
        best = number if stopping.update(score) else best
        if stopping.exhausted:
            break
    return number, best


@pytest.mark.parametrize(
    ("patience", "expected"), [(1, (2, 1)), (2, (3, 1)), (3, (6, 4)), (None, (6, 4))]
)
def test_it_waits_as_long_as_it_is_patient(patience, expected):
    """An epoch that is as good as the best one is no improvement."""
    scores = [ValidationScores(0.0, nll, 50.0) for nll in NLL]
    assert stops_at("nll", scores, patience) == expected


def test_each_score_may_decide():
    scores = [
        ValidationScores(3.0, 0.1, 50.0),
        ValidationScores(2.0, 0.2, 70.0),
        ValidationScores(1.0, 0.3, 60.0),
    ]
    assert stops_at("nll", scores, 9)[1] == 0
    assert stops_at("accuracy", scores, 9)[1] == 1
    assert stops_at("loss", scores, 9)[1] == 2


def overfitting(model, epochs=40, **options):
    """Few data with random labels: the validation nll rises after a while."""
    generator = torch.Generator().manual_seed(0)
    x, held_out = torch.randn(2, 40, 2, generator=generator)
    noise = torch.rand(40, generator=generator) < 0.3
    y, labels = (x.sum(1) > 0).long() ^ noise.long(), (held_out.sum(1) > 0).long()
    options = {"learning_rate": 0.1, "validation": (held_out, labels), **options}
    objective = felbo.NegativeLogLikelihood()
    return fit(model, (x, y), objective, epochs=epochs, batch_size=10, seed=0, **options)


def test_the_best_weights_and_statistics_are_restored_exactly():
    model, states = felbo.MAP(normalised()), []
    history = overfitting(model, patience=5, on_epoch=lambda epoch: states.append(state(model)))
    scores = [found.nll for found in history.validation]
    best = scores.index(min(scores))
    assert history.best.number == best
    assert len(scores) == best + 6 < 40
    assert not torch.equal(states[best]["network.0.weight"], states[-1]["network.0.weight"])
    for name, value in model.state_dict().items():
        assert torch.equal(value, states[best][name])


def test_patience_of_all_epochs_never_stops_and_takes_the_best():
    model, states = felbo.MAP(network()), []
    history = overfitting(model, patience=40, on_epoch=lambda epoch: states.append(state(model)))
    assert len(history) == 40
    assert torch.equal(model.network[1].weight, states[history.best.number]["network.1.weight"])


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, RuntimeError])
def test_the_best_weights_remain_however_it_ends(error):
    model, states = felbo.MAP(network()), []

    def on_epoch(epoch):
        states.append(state(model))
        if epoch.number == 20:
            raise error or felbo.StopTraining

    if error is None:
        history = overfitting(model, patience=40, on_epoch=on_epoch)
    else:
        with pytest.raises(error) as caught:  # holds the frames of the training
            overfitting(model, patience=40, on_epoch=on_epoch)
        history = caught.value.history
    assert len(history) == len(states) == 21
    scores = [found.nll for found in history.validation]
    best = scores.index(min(scores))
    assert best < 20
    for name, value in model.state_dict().items():
        assert torch.equal(value, states[best][name])


def test_a_callback_stops_without_patience_and_keeps_the_last_weights():
    model, twin = felbo.MAP(network()), felbo.MAP(network())
    twin.load_state_dict(model.state_dict())

    def on_epoch(epoch):
        if epoch.number == 4:
            raise felbo.StopTraining

    history = overfitting(model, on_epoch=on_epoch)
    assert len(history) == 5
    assert history == overfitting(twin, epochs=5)
    for name, value in model.state_dict().items():
        assert torch.equal(value, twin.state_dict()[name])


def test_the_predictions_are_those_of_the_best_epoch():
    model, seen = felbo.MCDropout(network()), []
    x = data()[0]

    def on_epoch(epoch):
        seen.append(felbo.predict(model, x, seed=0).probs)

    history = overfitting(model, patience=3, on_epoch=on_epoch)
    found = felbo.predict(copy.deepcopy(model), x, seed=0).probs
    assert torch.equal(found, seen[history.best.number])


def test_contradictions_are_refused():
    model = felbo.MAP(network())
    refused(model, data(), ValueError, "patience waits for .* validation data", patience=3)
    options = {"validation": data()}
    refused(model, data(), ValueError, "patience must be a whole number", patience=0, **options)
    refused(model, data(), ValueError, "monitor must be one of 'nll'", monitor="f1", **options)
