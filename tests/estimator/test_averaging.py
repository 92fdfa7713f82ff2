"""Mean weights over the last epochs."""

import numpy as np
import pytest
import torch
from torch import nn

import felbo
from felbo.estimator import fitting
from felbo.estimator.averaging import MeanWeights
from felbo.estimator.building import make_objective
from felbo.estimator.rows import Rows, as_loader

from .quick import Killed, killing_points, quick

X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)


def passed(model, mean, epochs):
    """Let epochs pass in which all weights and statistics are the number of the epoch."""
    for number in epochs:
        for part in (*model.parameters(), *model.buffers()):
            part.data.fill_(number)
        mean.step()


@pytest.mark.parametrize(
    ("epochs", "expected"), [(1, 0), (2, 1), (5, 4), (6, 4.5), (9, 7), (100, 83)]
)
def test_the_last_third_of_the_epochs_counts(epochs, expected):
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    mean = MeanWeights(model, epochs)
    passed(model, mean, range(epochs))
    mean.apply()
    for part in (*model.parameters(), model[1].running_mean, model[1].running_var):
        torch.testing.assert_close(part.detach(), torch.full_like(part, expected))
    assert model[1].num_batches_tracked == epochs - 1


@pytest.mark.parametrize("interrupted", [0, 5, 7, 9])
def test_the_mean_goes_on_from_its_state(interrupted):
    model = nn.Linear(1, 1)
    before, after = MeanWeights(model, 9), MeanWeights(model, 9)
    passed(model, before, range(interrupted))
    after.load_state_dict(before.state_dict())
    passed(model, after, range(interrupted, 9))
    after.apply()
    assert model.weight.item() == 7


def test_a_fit_ends_with_the_mean_of_its_last_epochs():
    fitted = quick(epochs=7).fit(X, Y)
    learner = fitted.learner_
    again = fitted._untrained(learner.table, 3, learner.seed)
    rows = Rows(learner.table.transform(X), Y, np.ones(60)).merged()
    ends = []
    felbo.fit(
        again.model,
        make_objective(felbo.UniformPrior(2), 60, "elsewhere", fitted.strength, 0.0, 3),
        as_loader(rows, 32),
        epochs=7,
        optimizer=again.optimizer,
        seed=learner.seed,
        progress=False,
        on_epoch=lambda epoch: ends.append([p.detach().clone() for p in again.model.parameters()]),
    )
    for part, *late in zip(learner.model.parameters(), *ends[5:], strict=True):
        torch.testing.assert_close(part.detach(), torch.stack(late).double().mean(0))


def test_an_interrupted_fit_ends_with_the_same_mean(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "SECONDS", 0.0)
    points, left = killing_points()
    settings = {"epochs": 9, "measurement": points}
    whole = quick(**settings).fit(X, Y)
    for steps in (13, 3, 2):  # two steps in an epoch, and a mean over the last six of 18
        left[0] = steps
        with pytest.raises(Killed):
            quick(**settings).fit(X, Y, checkpoint=tmp_path)
    left[0] = 0
    resumed = quick(**settings).fit(X, Y, checkpoint=tmp_path)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
