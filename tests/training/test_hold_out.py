"""A fraction of the training data is held out: seeded, in equal parts of the classes."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import felbo
from felbo.training.hold_out import hold_out, split

from .small import data, elbo, fit, network, refused, weights

X, Y = data(50)


class Squares(Dataset):
    """A Dataset whose labels are known only once its items are read."""

    def __len__(self):
        return len(Y)

    def __getitem__(self, index):
        return X[index], Y[index]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(X, Y, strict=True))


def held_out(given, fraction=0.2, seed=0):
    return hold_out(given, fraction, seed, torch.float32)


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5, 0.9])
def test_each_class_is_divided_alike_and_every_item_is_on_one_side(fraction):
    labels = torch.tensor([0] * 60 + [1] * 20 + [2] * 40)[torch.randperm(120)]
    kept, rest = split(labels, fraction, seed=3)
    assert torch.equal(torch.cat([kept, rest]).sort().values, torch.arange(120))
    expected = fraction * torch.tensor([60.0, 20.0, 40.0])
    assert (labels[rest].bincount() - expected).abs().max() <= 1


def test_a_seed_decides_which():
    labels = torch.zeros(100, dtype=torch.int64)
    first, again, other = (split(labels, 0.3, seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    "given",
    [
        (X, Y),
        (X.double().numpy(), Y.numpy().astype(np.int16)),
        (pd.DataFrame(X.numpy(), columns=["a", "b"]), pd.Series(Y.numpy())),
        TensorDataset(X, Y),
    ],
    ids=["tensors", "arrays", "frames", "dataset"],
)
def test_all_forms_are_trained_alike(given):
    def trained(given, validation):
        torch.manual_seed(0)
        model = felbo.MAP(network())
        history = fit(model, given, batch_size=None, seed=5, validation=validation)
        return weights(model), history.validation

    kept, rest = split(Y, 0.2, seed=5)
    expected, scores = trained((X[kept], Y[kept]), (X[rest], Y[rest]))
    got, same = trained(given, 0.2)
    # A Dataset is read in another order, which rounding sees.
    torch.testing.assert_close(got, expected)
    np.testing.assert_allclose(same, scores, rtol=1e-5)


def test_inputs_of_several_parts_stay_together():
    (inputs, labels), (others, _) = held_out(({"a": X, "b": (X[:, 0], X[:, 1])}, Y))
    assert torch.equal(inputs["a"], torch.stack(inputs["b"], 1))
    assert len(labels) == len(inputs["a"]) == 40
    assert len(others["a"]) == 10


def test_a_dataset_of_unknown_labels_is_split_at_random():
    kept, rest = held_out(Squares())
    assert (len(kept), len(rest)) == (40, 10)
    assert not set(kept.indices) & set(rest.indices)


def test_validation_data_are_returned_as_they_are():
    separate = (X[:5], Y[:5])
    assert held_out((X, Y), separate)[1] is separate
    assert held_out((X, Y), None) == ((X, Y), None)


def test_the_size_without_one_in_the_objective_is_that_of_the_rest():
    model = felbo.MAP(network())
    fit(model, (X, Y), felbo.NegativeLogLikelihood(), validation=0.2)
    assert model.num_data == 40


@pytest.mark.parametrize(
    ("given", "fraction", "error", "message"),
    [
        (DataLoader(TensorDataset(X, Y), 10), 0.2, TypeError, "DataLoader cannot be split"),
        (Stream(), 0.2, TypeError, "Stream cannot be split"),
        ((X, Y), 1.0, ValueError, "between 0 and 1; got 1.0"),
        ((X, Y), 5, ValueError, "between 0 and 1; got 5"),
        ((X, Y), True, ValueError, "between 0 and 1; got True"),
        ((X[:2], Y[:2]), 0.2, ValueError, "0.2 of 2 items leaves none"),
        ((X, Y[:40]), 0.2, ValueError, r"one label per input, shape \[50\]"),
    ],
)
def test_refused(given, fraction, error, message):
    refused(felbo.MAP(network()), given, error, message, validation=fraction)


def test_patience_works_with_a_fraction():
    model = felbo.MAP(network())
    history = fit(model, (X, Y), elbo(), epochs=30, validation=0.2, patience=30, seed=0)
    assert history.best.validation.nll == min(scores.nll for scores in history.validation)
