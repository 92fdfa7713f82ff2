"""What cannot be trained is refused in words that help, before a weight moves."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import felbo

from .small import Frame, changed, data, elbo, fit, network, normalised, refused, state, weights


def test_impossible_settings():
    model = felbo.MAP(network())
    loader = DataLoader(TensorDataset(*data()), batch_size=16)
    refused(model, data(), ValueError, "epochs must be a whole number .* got 0", epochs=0)
    refused(model, data(), ValueError, "epochs .* a whole number .* got 2.5", epochs=2.5)
    refused(model, data(), ValueError, "epochs .* a whole number .* got nan", epochs=math.nan)
    refused(model, loader, ValueError, "batch_size = 8 is for tensors", batch_size=8)
    refused(model, data(), ValueError, "scheduler_step .* got 'batch'", scheduler_step="batch")
    refused(model, data(), TypeError, "An objective is an instance", felbo.FunctionSpaceELBO)
    refused(model, "data", TypeError, r"DataLoader, a Dataset, or a pair \(x, y\).* got str")
    empty = DataLoader(TensorDataset(*data()), batch_size=64, drop_last=True)
    refused(model, empty, ValueError, r"gave no batch.*drop_last")
    none = DataLoader(TensorDataset(*data(0)), batch_size=64)
    refused(model, none, ValueError, "gave no batch")


@pytest.mark.parametrize("batch_size", [None, 16])
def test_plain_networks(batch_size):
    plain = network()
    message = r"plain network.* felbo.MAP\(network\)"
    refused(plain, data(), TypeError, message, batch_size=batch_size)
    for objective in (elbo(), felbo.NegativeLogLikelihood(), felbo.WeightSpaceELBO(50)):
        with pytest.raises(TypeError, match=message):
            objective(plain, *data())
    with pytest.raises(TypeError, match="Expected a stochastic classifier, got str"):
        fit("model", data())


def test_nothing_to_train():
    frozen = felbo.MAP(network().requires_grad_(False))
    refused(frozen, data(), ValueError, "no parameter to train")
    for no_gradient in (torch.no_grad, torch.inference_mode):
        with no_gradient():
            refused(felbo.MAP(network()), data(), RuntimeError, "Training needs gradients")
    with torch.inference_mode():
        made_inside = felbo.MAP(network())
    message = r"'network\.1\.weight' was made in torch\.inference_mode\(\).*build the model outside"
    refused(made_inside, data(), felbo.errors.StateError, message)


def test_optimisers_of_the_original_network():
    original = network()
    model = felbo.MAP(original)
    foreign = torch.optim.Adam(original.parameters())
    refused(model, data(), ValueError, r"holds no parameter of this MAP.*copy", optimizer=foreign)
    before = state(model)
    fit(model, data(), optimizer=torch.optim.SGD(model.network[3].parameters(), lr=0.1))
    assert changed(model, before) == {"network.3.weight", "network.3.bias"}


@pytest.mark.parametrize("batch_size", [None, 10])
def test_labels_anywhere_in_the_data(batch_size):
    model, (x, y) = felbo.MCDropout(network()), data()
    y[49] = 2
    refused(model, (x, y), ValueError, r"0 … 1.*from 0 to 2", batch_size=batch_size)
    y[49] = -100
    refused(model, (x, y), ValueError, "from -100 to 1", batch_size=batch_size)
    refused(model, (x, y / 3), TypeError, "values that are not integers", batch_size=batch_size)
    refused(model, (x, y[:7]), ValueError, "x has 50 items and y 7", batch_size=batch_size)
    words = np.array(["cat", "dog"])[data()[1]]
    refused(model, (x, words), TypeError, "LabelEncoder", batch_size=batch_size)
    one_hot = nn.functional.one_hot(data()[1])
    refused(model, (x, one_hot), ValueError, "One-hot", batch_size=batch_size)


@pytest.mark.parametrize("loader", [True, False])
def test_a_last_batch_of_one_under_batch_normalisation(loader):
    def source(size):
        loaded = DataLoader(TensorDataset(*data(size)), 16, shuffle=True)
        return (loaded, {}) if loader else (data(size), {"batch_size": 16})

    makers = (felbo.MAP, felbo.MCDropout, lambda net: felbo.Ensemble.from_networks([net]))
    for make in makers:
        given, options = source(49)
        message = r"last batch would hold 1 .*more than one value per channel.*drop_last=True"
        refused(make(normalised()), given, ValueError, message, **options)
        fit(make(normalised()), source(50)[0], **options)
    # One item serves where the normalisation is frozen, or where there is none.
    frozen = normalised()
    frozen[1].eval()
    for net in (frozen, network()):
        fit(felbo.MAP(net), given, **options)


def test_a_last_batch_of_one_where_it_does_not_come_alone():
    """With points beside it, or for every member of a rank-1 model."""
    measurement = felbo.measurement.Mixture(felbo.measurement.Batch(), torch.neg)
    fit(felbo.MAP(normalised()), data(49), elbo(measurement=measurement), batch_size=16)
    model = felbo.Rank1(normalised(), members=4)
    fit(model, data(49), elbo(num_samples=4), batch_size=16)


def test_objectives_may_use_the_inputs_as_they_like():
    x, y = data()

    def weighted(model, inputs, labels):
        features, weights = inputs
        nll = nn.functional.cross_entropy(model(features)[0], labels, reduction="none")
        loss = (weights * nll).mean()
        return felbo.Loss(loss, loss, 0 * loss)

    history = fit(felbo.MAP(normalised()), ((x, torch.ones(50)), y), weighted, batch_size=10)
    assert history.nll[-1] < history.nll[0]
    refused(felbo.MAP(network()), ((x, x[:, 0]), y + 1), IndexError, "out of bounds", weighted)


def test_a_last_batch_of_one_where_it_has_more_than_one_pixel():
    def pictures(size, pixels):
        return torch.randn(size, 1, pixels, pixels), torch.arange(size) % 2

    def convolutional(pixels):
        layers = [nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(4 * pixels**2, 2))

    model = felbo.MAP(convolutional(3))
    twin = copy.deepcopy(model)
    fit(model, pictures(17, 3), batch_size=16, epochs=1)
    assert torch.equal(model.network[1].num_batches_tracked, torch.tensor(2))
    assert not torch.equal(weights(model), weights(twin))
    message = "last batch would hold 1"
    refused(felbo.MAP(convolutional(1)), pictures(17, 1), ValueError, message, batch_size=16)


@pytest.mark.parametrize("size", [32, 33])
def test_what_ails_every_batch_is_not_blamed_on_the_last(size):
    single = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    message = r"^A network must give logits \[32, K\]"
    refused(felbo.MAP(single), data(size), ValueError, message, batch_size=32)
    ensemble = felbo.Ensemble(network, members=2)
    message = "^This ensemble has 2 members"
    refused(ensemble, data(size), ValueError, message, elbo(num_samples=3), batch_size=32)


def test_inputs_of_another_dtype():
    x, y = data()
    message = r"(?s)The inputs are torch.int64 and the weights torch.float32.*x.float\(\)"
    refused(felbo.MAP(network()), (x.long(), y), RuntimeError, message)
    refused(felbo.MAP(network()), (x.double(), y), RuntimeError, "inputs are torch.float64")


def test_objectives_that_return_no_loss():
    model = felbo.MAP(network())
    refused(model, data(), TypeError, r"felbo.Loss.*got Tensor", lambda m, x, y: m(x).mean())


@pytest.mark.parametrize("wrap", [np.asarray, Frame, np.ndarray.tolist])
def test_arrays_frames_and_lists_train_as_tensors(wrap):
    x, y = data()
    expected = felbo.MAP(network())
    model = copy.deepcopy(expected)
    fit(expected, (x, y), batch_size=16, seed=0)
    for labels in (y.numpy(), y.numpy().astype(np.int16), y.numpy() > 0, y.double().numpy()):
        candidate = copy.deepcopy(model)
        fit(candidate, (wrap(x.double().numpy()), labels), batch_size=16, seed=0)
        assert torch.equal(weights(candidate), weights(expected))
    refused(model, (np.array([["a", "b"]] * 50), y), TypeError, "encode text")


@pytest.mark.parametrize("members", [1, 2])
def test_layers_without_a_shape_are_refused(members):
    model = felbo.Ensemble(lambda: nn.Sequential(nn.LazyLinear(2), nn.Tanh()), members)
    with pytest.raises(ValueError, match=r"'members.0.0.*has no shape yet: run one batch"):
        fit(model, data())
