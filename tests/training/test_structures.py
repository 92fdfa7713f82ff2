"""Several inputs in tuples and dicts, and outputs with `.logits`, for every kind of model.

A network of one tensor, of two arguments, and of two named arguments is one function; `fit`,
`finetune`, `predict` and the objectives must give one result for all of them.
"""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import felbo
from felbo.inputs import map_tensors

KINDS = {
    "MAP": felbo.MAP,
    "ConcentrationNetwork": felbo.ConcentrationNetwork,
    "MCDropout": felbo.MCDropout,
    "Ensemble": lambda net: felbo.Ensemble.from_networks([net, type(net)()]),
    "MeanField": felbo.MeanField,
    "Radial": felbo.Radial,
    "Rank1": lambda net: felbo.Rank1(net, members=2),
}
X = torch.randn(24, 5, generator=torch.Generator().manual_seed(0))
Y = (X.sum(1) > 0).long()
PARTS = X[:, :2].contiguous(), X[:, 2:].contiguous()
INPUTS = {"tuple": PARTS, "dict": {"left": PARTS[0], "right": PARTS[1]}}


class TwoInputs(nn.Module):
    """A network of two arguments, which returns an object that has logits."""

    def __init__(self):
        super().__init__()
        self.hidden, self.last = nn.Linear(5, 8), nn.Linear(8, 2)

    def forward(self, left, right):
        hidden = torch.tanh(self.hidden(torch.cat([left, right], 1)))
        return SimpleNamespace(logits=self.last(hidden), hidden=hidden)


class OneInput(TwoInputs):
    """The same network on one tensor."""

    def forward(self, x):
        return super().forward(x[:, :2], x[:, 2:]).logits


class Items(Dataset):
    """Items ``(x, y)``, or dicts that hold the labels too."""

    def __init__(self, x, y, named):
        self.x, self.y, self.named = x, y, named

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        x = map_tensors(lambda part: part[index], self.x)
        return {**x, "labels": self.y[index]} if self.named else (x, self.y[index])


def given(x, source):
    """Training data in one of their forms, and the options that go with it."""
    if source == "tensors":
        return (x, Y), {"batch_size": 10}
    items = Items(x, Y, named=source == "loader of dicts")
    if source == "dataset":
        return items, {"batch_size": 10}
    return DataLoader(items, batch_size=10, shuffle=True), {}


def elbo():
    return felbo.FunctionSpaceELBO(felbo.UniformPrior(2), num_data=24)


def predicted(kind, network, x, source, *, finetune=False):
    """Train for an epoch and predict the inputs in the same form, labels and all."""
    felbo.seed_everything(0)
    net, (data, options) = network(), given(x, source)
    options.update(epochs=1, learning_rate=0.05, seed=1, progress=False)
    if finetune:
        model = felbo.finetune(net, data, elbo(), model=KINDS[kind], **options)
    else:
        model = KINDS[kind](net)
        felbo.fit(model, elbo(), data, **options)
    inputs = x if source == "tensors" else Items(x, Y, named=source == "loader of dicts")
    return felbo.predict(model, inputs, batch_size=9, seed=2).probs


WAYS = [
    ("tuple", "tensors"),
    ("tuple", "dataset"),
    ("tuple", "loader of pairs"),
    ("dict", "tensors"),
    ("dict", "dataset"),
    ("dict", "loader of pairs"),
    ("dict", "loader of dicts"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("structure", "source"), WAYS)
def test_every_structure_trains_and_predicts_as_one_tensor(kind, structure, source):
    expected = predicted(kind, OneInput, {"x": X} if structure == "dict" else X, source)
    found = predicted(kind, TwoInputs, INPUTS[structure], source)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_every_structure_is_fine_tuned_as_one_tensor(kind):
    expected = predicted(kind, OneInput, {"x": X}, "loader of dicts", finetune=True)
    found = predicted(kind, TwoInputs, INPUTS["dict"], "loader of dicts", finetune=True)
    torch.testing.assert_close(found, expected)
    felbo.seed_everything(0)
    start = felbo.predict(felbo.MAP(TwoInputs()), PARTS).probs
    assert (found - start).abs().max() > 0.02


@pytest.mark.parametrize("structure", INPUTS)
def test_networks_in_a_list(structure):
    felbo.seed_everything(0)
    one = [OneInput() for _ in range(3)]
    two = [TwoInputs() for _ in range(3)]
    for ours, theirs in zip(two, one, strict=True):
        ours.load_state_dict(theirs.state_dict())
    expected = felbo.predict(one, X)
    found = felbo.predict(two, INPUTS[structure], batch_size=7)
    torch.testing.assert_close(found.probs, expected.probs)
    torch.testing.assert_close(found.precision, expected.precision, rtol=1e-3, atol=0)


def test_the_labels_of_a_dict_are_no_input():
    model = felbo.MAP(TwoInputs())
    expected = felbo.predict(model, PARTS).probs
    assert torch.equal(felbo.predict(model, {**INPUTS["dict"], "labels": Y}).probs, expected)


def negated(x):
    return map_tensors(torch.neg, x)


OBJECTIVES = {
    "function space": (felbo.MCDropout, elbo),
    "elsewhere": (
        felbo.MAP,
        lambda: felbo.FunctionSpaceELBO(felbo.UniformPrior(2), 24, measurement=negated),
    ),
    "likelihood": (felbo.MAP, felbo.NegativeLogLikelihood),
    "weight space": (felbo.MeanField, lambda: felbo.WeightSpaceELBO(num_data=24)),
    "belief matching": (
        felbo.ConcentrationNetwork,
        lambda: felbo.BeliefMatching(felbo.UniformPrior(2)),
    ),
    "prior network": (
        felbo.ConcentrationNetwork,
        lambda: felbo.PriorNetwork(felbo.measurement.Augmented(negated)),
    ),
    "evidential": (felbo.ConcentrationNetwork, lambda: felbo.Evidential(annealing_steps=10)),
}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("structure", INPUTS)
def test_objectives(name, structure):
    make, objective = OBJECTIVES[name]
    losses = []
    for network, x in ((OneInput, X), (TwoInputs, INPUTS[structure])):
        felbo.seed_everything(0)
        losses.append(torch.stack(objective()(make(network()), x, Y)))
    torch.testing.assert_close(losses[1], losses[0])
