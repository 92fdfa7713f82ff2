"""Fifty points of two classes and a small network: what the tests of this folder train on."""

import numpy as np
import pytest
import torch
from torch import nn

import felbo
from felbo.networks import mlp


def data(size=50):
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(size, 2, generator=generator)
    return x, (x.sum(1) > 0).long()


def network():
    return mlp(2, (8,), 2)


def normalised():
    """A network with batch normalisation."""
    return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def elbo(**settings):
    return felbo.FunctionSpaceELBO(felbo.UniformPrior(2), num_data=50, **settings)


def fit(model, data, objective=None, **options):
    options = {"epochs": 3, "batch_size": None, "progress": False, **options}
    return felbo.fit(model, objective or elbo(), data, **options)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def state(model):
    """Copies of all weights and statistics."""
    return {name: value.clone() for name, value in model.state_dict().items()}


def changed(model, before):
    """Names of weights and statistics that are not as they were."""
    now = {name: value for name, value in model.state_dict().items() if "_extra" not in name}
    return {name for name in now if not torch.equal(now[name], before[name])}


def refused(model, given, error, message, objective=None, **options):
    """Check that a training is refused with a message and has changed nothing."""
    before = state(model)
    with pytest.raises(error, match=message):
        fit(model, given, objective, **options)
    assert changed(model, before) == set()


def modes(model):
    return {name: part.training for name, part in model.named_modules()}


class Frame:
    """What felbo sees of a DataFrame: values, a shape and columns."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape, self.columns = self.values.shape, list("ab")

    def __array__(self, dtype=None, copy=None):
        view = self.values.view()
        view.flags.writeable = False  # as pandas gives it
        return view
