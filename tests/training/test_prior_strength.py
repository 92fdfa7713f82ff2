"""The prior counts the same for every batch, whatever remains for the last one."""

import pytest
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import felbo

from .small import data, elbo, fit, network


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return torch.tensor(images / 16, dtype=torch.float32)[order], torch.tensor(labels)[order]


@pytest.mark.parametrize("source", ["tensors", "loader", "dataset"])
def test_one_item_more_than_full_batches_costs_no_accuracy(digits, source):
    """With a KL weight of 1 for the batch of one, N = 1217 would give 76 % here."""
    x, y = digits

    def accuracy(size):
        felbo.seed_everything(0)
        model = felbo.MAP(felbo.networks.mlp(64, (50,), 10))
        objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(10), num_data=size)
        given, options = (x[:size], y[:size]), {"batch_size": 64}
        if source == "dataset":
            given = TensorDataset(*given)
        if source == "loader":
            given, options = DataLoader(TensorDataset(*given), 64, shuffle=True), {}
        fit(model, given, objective, epochs=5, learning_rate=0.01, seed=0, **options)
        return felbo.score(felbo.predict(model, x[1217:]), y[1217:]).accuracy

    assert accuracy(1216) > 94
    assert accuracy(1217) > 94


def weights_of_kl(given, objective=None, **options):
    """Return the weight of the KL in every step."""
    found, objective = [], objective or elbo()

    def watched(model, x, y):
        loss = objective(model, x, y)
        found.append(((loss.total - loss.nll) / loss.kl).item())
        return loss

    watching = _Watching(watched, objective)
    fit(felbo.MAP(network()), given, watching, **options)
    return found


class _Watching(felbo.Objective):
    """An objective that is watched, and told by `fit` what it should know."""

    def __init__(self, function, objective):
        self.function, self.begin = function, objective.begin

    def __call__(self, model, x, y):
        return self.function(model, x, y)


def test_every_batch_has_the_weight_of_a_full_one():
    loader = DataLoader(TensorDataset(*data()), 16)
    expected = pytest.approx([1 / 16] * 12, rel=1e-4)
    assert weights_of_kl(loader) == expected
    assert weights_of_kl(data(), batch_size=16) == expected
    assert weights_of_kl(data()) == pytest.approx([1 / 50] * 3, rel=1e-4)
    # Where nobody says, the largest batch so far counts.
    uneven = [[0], [1, 2, 3], [4, 5], list(range(6, 16)), [16]]
    found = weights_of_kl(DataLoader(TensorDataset(*data()), batch_sampler=uneven), epochs=1)
    assert found == pytest.approx([1, 1 / 3, 1 / 3, 0.1, 0.1], rel=1e-4)


def test_a_number_that_is_given_counts():
    assert weights_of_kl(data(), elbo(kl_weight=0.3), batch_size=16) == pytest.approx(
        [0.3] * 12, rel=1e-4
    )
    assert weights_of_kl(data(), elbo(batch_size=128), batch_size=16) == pytest.approx(
        [1 / 128] * 12, rel=1e-3
    )


def test_an_objective_used_again_takes_the_new_batch_size():
    objective = elbo()
    for size in (32, 8, 16):
        found = weights_of_kl(data(), objective, batch_size=size, epochs=1)
        assert found == pytest.approx([1 / size] * len(found), rel=1e-4)
