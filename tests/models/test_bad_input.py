"""What does not fit together is refused by every kind of model before its weights move."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo.networks import mlp

KINDS = {
    "MAP": lambda new: felbo.MAP(new()),
    "MCDropout": lambda new: felbo.MCDropout(new()),
    "Ensemble": lambda new: felbo.Ensemble(new, 2),
    "MeanField": lambda new: felbo.MeanField(new()),
    "Radial": lambda new: felbo.Radial(new()),
    "Rank1": lambda new: felbo.Rank1(new(), 4),
}
CONVERTING = {
    "MCDropout": felbo.MCDropout,
    "MeanField": felbo.MeanField,
    "Radial": felbo.Radial,
    "Rank1": felbo.Rank1,
}
CLASSES, ITEMS, BATCH = 3, 24, 8
OBJECTIVES = {
    "function-space": lambda: felbo.FunctionSpaceELBO(felbo.UniformPrior(CLASSES), ITEMS),
    "weight-space": lambda: felbo.WeightSpaceELBO(ITEMS),
    "likelihood": felbo.NegativeLogLikelihood,
}

every_kind = pytest.mark.parametrize("kind", KINDS)
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)
as_loader = pytest.mark.parametrize("loader", [False, True], ids=["tensors", "loader"])


def network():
    return nn.Sequential(nn.Linear(2, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, CLASSES))


def data(items=ITEMS):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(items, 2, generator=generator), torch.arange(items) % CLASSES


def fit(model, objective, x, y, loader):
    source, options = (x, y), {"batch_size": BATCH}
    if loader:
        source, options = DataLoader(TensorDataset(x, y), batch_size=BATCH), {}
    felbo.fit(model, objective, source, epochs=2, progress=False, **options)


def assert_refused(model, objective, x, y, loader, message, error=ValueError):
    """The run fails with the message, no parameter has moved and the mode is as it was."""
    model.eval()
    before = copy.deepcopy(list(model.parameters()))
    with pytest.raises(error, match=message):
        fit(model, objective, x, y, loader)
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, old)
    assert not model.training


@every_kind
@as_loader
def test_good_input_moves_every_parameter(kind, loader):
    model = KINDS[kind](network)
    before = copy.deepcopy(list(model.parameters()))
    fit(model, OBJECTIVES["function-space"](), *data(), loader)
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert not torch.equal(parameter, old)


@pytest.mark.parametrize("kind", CONVERTING)
def test_network_with_nothing_to_convert(kind):
    expected = r"Nothing to convert in Sequential.*Linear, Conv1d, Conv2d.*, found none"
    with pytest.raises(ValueError, match=expected):
        CONVERTING[kind](nn.Sequential(nn.Flatten(), nn.BatchNorm1d(3)))


@pytest.mark.parametrize("kind", ["MAP", "Ensemble"])
def test_network_with_nothing_to_train(kind):
    model = KINDS[kind](nn.Flatten)
    with pytest.raises(ValueError, match=f"{kind} has no parameter to train"):
        fit(model, felbo.NegativeLogLikelihood(), *data(), loader=False)


@pytest.mark.parametrize("kind", CONVERTING)
def test_skip_of_a_name_that_does_not_exist(kind):
    with pytest.raises(ValueError, match=r"skip names 'head'.*does not have.*'1', '3', '5'"):
        CONVERTING[kind](mlp(2, (4, 4), CLASSES), skip=("head",))


@every_kind
@as_loader
def test_prior_with_another_number_of_classes(kind, loader):
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(4), ITEMS)
    message = "prior has 4 classes and the model 3"
    assert_refused(KINDS[kind](network), objective, *data(), loader, message)


@every_kind
@every_objective
@as_loader
@pytest.mark.parametrize("label", [CLASSES, -1])
def test_label_out_of_range_in_the_first_batch(kind, objective, loader, label):
    x, y = data()
    y[:BATCH] = label
    model = KINDS[kind](network)
    message = r"0 … 2, since the model gives 3 classes; got labels from"
    assert_refused(model, OBJECTIVES[objective](), x, y, loader, message)


@every_kind
def test_one_wrong_label_among_tensors_is_found_before_the_first_step(kind):
    x, y = data(20 * BATCH)
    y[-1] = CLASSES
    model = KINDS[kind](network)
    before = copy.deepcopy(dict(model.named_buffers()))
    assert_refused(model, OBJECTIVES["likelihood"](), x, y, False, "got labels from 0 to 3")
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name]), name


@every_kind
@as_loader
def test_labels_that_are_no_class_indices(kind, loader):
    x, y = data()
    model, objective = KINDS[kind](network), OBJECTIVES["likelihood"]()
    assert_refused(model, objective, x, y + 0.5, loader, "integer class indices", TypeError)
    one_hot = nn.functional.one_hot(y, CLASSES)
    assert_refused(model, objective, x, one_hot, loader, r"argmax\(-1\)")


@every_objective
@as_loader
def test_rank1_batch_smaller_than_the_members_is_found_before_the_first_step(objective, loader):
    x, y = data(2 * BATCH + 3)
    message = "last batch would hold 3 of the items and this Rank1 needs at least 4"
    assert_refused(KINDS["Rank1"](network), OBJECTIVES[objective](), x, y, loader, message)
    assert_refused(KINDS["Rank1"](network), OBJECTIVES[objective](), x[:3], y[:3], loader, message)


def test_rank1_takes_small_batches_when_every_member_sees_every_input():
    x, y = data(2 * BATCH + 3)
    fit(KINDS["Rank1"](network), felbo.WeightSpaceELBO(ITEMS, num_samples=4), x, y, loader=False)


def test_rank1_takes_a_loader_that_drops_the_small_batch_and_one_of_its_own_making():
    dataset = TensorDataset(*data(2 * BATCH + 3))
    sampler = torch.utils.data.BatchSampler(range(16), batch_size=4, drop_last=False)
    for loader in (
        DataLoader(dataset, batch_size=BATCH, drop_last=True),
        DataLoader(dataset, batch_sampler=sampler),
    ):
        felbo.fit(KINDS["Rank1"](network), felbo.WeightSpaceELBO(19), loader, epochs=1)
