import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo.evaluation.labelled import labelled_batches, predict_labelled

from .samples import seeded

X = torch.randn(50, 2, generator=seeded())
Y = torch.arange(50) % 3


@pytest.fixture
def model():
    return felbo.MAP(felbo.networks.mlp(2, (8,), 3))


@pytest.mark.parametrize(
    "data",
    [
        (X, Y),
        [X.double().numpy(), Y.numpy().astype(np.uint8)],
        TensorDataset(X, Y),
        DataLoader(TensorDataset(X, Y), 7),
    ],
    ids=["tensors", "arrays", "dataset", "loader"],
)
def test_every_form_gives_the_same_predictions_in_order(model, data):
    prediction, labels = predict_labelled(model, data, batch_size=16)
    torch.testing.assert_close(prediction.probs, felbo.predict(model, X).probs)
    assert torch.equal(labels, Y)


def test_a_loader_that_shuffles_keeps_labels_with_their_predictions(model):
    loader = DataLoader(TensorDataset(X, Y), 7, shuffle=True, generator=seeded(1))
    prediction, labels = predict_labelled(model, loader)
    assert not torch.equal(labels, Y)
    direct = felbo.predict(model, X)
    assert felbo.score(prediction, labels) == pytest.approx(felbo.score(direct, Y), abs=1e-6)


def test_draws_are_those_of_predict_with_the_same_seed():
    model = felbo.MCDropout(felbo.networks.mlp(2, (8,), 3))
    settings = {"batch_size": 20, "seed": 3, "num_samples": 5}
    prediction, _ = predict_labelled(model, (X, Y), **settings)
    assert torch.equal(prediction.epistemic, felbo.predict(model, X, **settings).epistemic)


def test_several_inputs_of_a_network_and_dicts_with_labels():
    network = torch.nn.Bilinear(2, 2, 3)
    model = felbo.MAP(network)
    for data in (((X, X), Y), {"input1": X, "input2": X, "labels": Y}):
        prediction, labels = predict_labelled(model, data)
        torch.testing.assert_close(prediction.probs, network(X, X).softmax(-1))
        assert torch.equal(labels, Y)


@pytest.mark.parametrize("use", [felbo.evaluate, felbo.calibrate])
@pytest.mark.parametrize("size", [0, -1, 7.5, True])
def test_a_batch_size_that_is_no_whole_number_is_refused(model, use, size):
    with pytest.raises(ValueError, match=r"batch_size must be a (whole )?number"):
        use(model, (X, Y), batch_size=size)


def test_a_list_of_networks():
    networks = [felbo.networks.mlp(2, (4,), 3) for _ in range(3)]
    prediction, _ = predict_labelled(networks, (X, Y))
    assert prediction.is_random


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (X, TypeError, "pair"),
        ((X, Y[:10]), ValueError, r"\[50\], got \[10\]"),
        ((X, torch.eye(3)[Y]), ValueError, "argmax"),
        ((X, Y + 0.5), TypeError, "not integers"),
        ((X[:0], Y[:0]), ValueError, "nothing to predict"),
        (DataLoader(TensorDataset(X), 7), TypeError, "pair"),
    ],
)
def test_what_is_no_labelled_data_is_refused(model, data, error, message):
    with pytest.raises(error, match=message):
        predict_labelled(model, data)


def test_batches_have_the_size_that_was_asked_for(model):
    assert [len(y) for _, y in labelled_batches((X, Y), 20, model)] == [20, 20, 10]
