"""N and B as the training knows them."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo.training.devices import best_device
from felbo.training.size import items_per_step, training_size
from felbo.training.sources import as_batches

from .small import data, elbo, fit, network


def test_the_size_of_the_training_set_is_that_of_the_objective_or_of_the_data():
    assert training_size(felbo.NegativeLogLikelihood(), data()) == 50
    assert training_size(elbo(), data(70)) == 50
    assert training_size(felbo.WeightSpaceELBO(800), data()) == 800
    assert training_size(felbo.FunctionSpaceELBO(felbo.UniformPrior(2), 12.6), data()) == 13
    assert training_size(felbo.NegativeLogLikelihood(), DataLoader(TensorDataset(*data()))) == 50


@pytest.mark.parametrize(
    ("batch_size", "accumulate", "expected"), [(8, 1, 8), (8, 4, 32), (8, 9, 50), (None, 3, 50)]
)
def test_items_of_a_step(batch_size, accumulate, expected):
    batches = as_batches(data(), batch_size, best_device(), torch.float32)
    assert items_per_step(batches, accumulate) == expected


def test_the_model_knows_the_size_from_the_first_epoch_on():
    model, seen = felbo.MAP(network()), []
    fit(model, data(), on_epoch=lambda epoch: seen.append(model.num_data))
    assert seen == [50] * 3
    assert felbo.MAP(network()).num_data is None


def test_a_training_that_fails_at_once_tells_nothing():
    model = felbo.MAP(network())
    with pytest.raises(FloatingPointError):
        fit(model, (torch.nan * data()[0], data()[1]))
    assert model.num_data is None


def test_the_size_of_data_that_come_in_batches_is_not_known():
    x, y = data()
    loader = DataLoader([(x[:30], y[:30]), (x[30:], y[30:])], batch_size=None)
    model, objective = felbo.MAP(network()), felbo.NegativeLogLikelihood()
    fit(model, loader, objective)
    assert training_size(objective, loader) is None
    assert model.num_data is None
