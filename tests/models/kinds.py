"""Every kind of model and a few networks: what the tests of this folder run over."""

import copy
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

from felbo.inputs import map_tensors
from felbo.models import (
    MAP,
    ConcentrationNetwork,
    Ensemble,
    MCDropout,
    MeanField,
    Radial,
    Rank1,
    StochasticClassifier,
    SubnetworkLaplace,
    Tempered,
)
from felbo.networks import mlp

DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.images / 8 - 1, dtype=torch.float32).unsqueeze(1)
LABELS = torch.tensor(DIGITS.target)
X, Y = IMAGES[:32], LABELS[:32]


class Transformer(nn.Module):
    """Eight tokens, the rows of a digit; dropout where torch has it by default."""

    def __init__(self, dropout=0.1):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(8, 10)

    def forward(self, x, padding=None):
        tokens = self.encoder(x.flatten(1, -2), src_key_padding_mask=padding)
        if padding is None:
            return self.head(tokens.mean(1))
        kept = (~padding).unsqueeze(-1)
        return self.head((tokens * kept).sum(1) / kept.sum(1))


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 10)
    )


NETWORKS = {
    "mlp": lambda: mlp(64, (32,), 10),
    "convolutional": convolutional,
    "transformer": Transformer,
}


class Kind(NamedTuple):
    """How to make a model, and the setting in which it is the plain network."""

    make: Callable[[Callable[[], nn.Module]], StochasticClassifier]
    limit: Callable[[nn.Module], StochasticClassifier]


def fitted(network, x=X, y=Y):
    """A Laplace posterior over a few weights, from two batches."""
    model = SubnetworkLaplace(network, size=12, **FEW)
    return model.fit(DataLoader(_Items(x, y), batch_size=16))


class _Items(Dataset):
    """Items whose inputs may be a tensor, a tuple or a dict."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return map_tensors(lambda part: part[index], self.x), self.y[index]


def no_spread(network):
    model = SubnetworkLaplace(network, **FEW)
    model.fitted.fill_(True)
    return model


FEW = {"evaluation_samples": 3}
KINDS = {
    "MAP": Kind(lambda new: MAP(new()), MAP),
    "ConcentrationNetwork": Kind(lambda new: ConcentrationNetwork(new()), ConcentrationNetwork),
    "MCDropout": Kind(lambda new: MCDropout(new(), 0.1, **FEW), lambda net: MCDropout(net, 0.0)),
    "Ensemble": Kind(lambda new: Ensemble(new, 2), lambda net: Ensemble.from_networks([net])),
    "MeanField": Kind(lambda new: MeanField(new(), **FEW), lambda net: MeanField(net, rho=-40.0)),
    "Radial": Kind(lambda new: Radial(new(), **FEW), lambda net: Radial(net, rho=-40.0)),
    "Rank1": Kind(lambda new: Rank1(new(), 2), lambda net: Rank1(net, 1, rho=-40.0)),
    "SubnetworkLaplace": Kind(lambda new: fitted(new()), no_spread),
    "Tempered": Kind(
        lambda new: Tempered(MCDropout(new(), 0.1, **FEW), 2.0),
        lambda net: Tempered(MAP(net), 1.0),
    ),
}
DETERMINISTIC = {"MAP", "ConcentrationNetwork"}
# A Laplace posterior is computed, not trained by gradients.
TRAINED = [kind for kind in KINDS if kind != "SubnetworkLaplace"]


def build(kind, network="mlp", seed=0):
    """A model of the given kind around a network, named or made by a function."""
    return copy.deepcopy(_built(kind, network, seed))


@cache
def _built(kind, network, seed):
    # A Laplace posterior takes a while to fit, and most tests start from the same one.
    torch.manual_seed(seed)
    return KINDS[kind].make(NETWORKS.get(network, network))
