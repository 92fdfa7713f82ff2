"""Every form of training data gives the same batches, and says how large they are."""

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from felbo.training.devices import best_device
from felbo.training.sources import as_batches, default_batch_size, num_items

X, Y = torch.arange(46.0).reshape(23, 2), torch.arange(23)
DATA = TensorDataset(X, Y)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(DATA)


def batches(data, batch_size="auto"):
    return as_batches(data, batch_size, best_device(), torch.float32)


@pytest.mark.parametrize(
    ("data", "batch_size", "full", "last"),
    [
        ((X, Y), 5, 5, 3),
        ((X, Y), None, 23, 23),
        ([X, Y], 23, 23, 23),
        (DATA, 5, 5, 3),
        (DATA, None, 23, 23),
        (DataLoader(DATA, 5), None, 5, 3),
        (DataLoader(DATA, 5, drop_last=True), None, 5, 5),
        (DataLoader(DATA, 100), None, 23, 23),
        (DataLoader(DATA, 5, sampler=WeightedRandomSampler(torch.ones(23), 12)), None, 5, 2),
        (DataLoader(DATA, batch_sampler=BatchSampler(SequentialSampler(Y), 5, False)), None, 5, 3),
        (DataLoader(DATA, batch_sampler=[[0, 1], [2, 3, 4]]), None, None, None),
        (DataLoader(Stream(), 5), None, 5, None),
        (Stream(), 5, 5, None),
    ],
)
def test_sizes_of_full_and_last_batches(data, batch_size, full, last):
    found = batches(data, batch_size)
    assert (found.full_size, found.last_size) == (full, last)
    sizes = [len(y) for _, y in found]
    assert sizes[0] == (full or 2)
    assert sizes[-1] == (last or 3)
    for x, y in found:
        assert torch.equal(x[:, 0], 2.0 * y)


def test_datasets_are_shuffled_and_streams_keep_their_order():
    assert [y.tolist() for _, y in batches(DATA, 23)] != [list(range(23))]
    assert [y.tolist() for _, y in batches(Stream(), 23)] == [list(range(23))]


@pytest.mark.parametrize(
    ("items", "size"),
    [(1, 1), (31, 31), (32, 32), (200, 32), (500, 50), (1280, 128), (60_000, 128), (0, 1)],
)
def test_the_default_batch_size(items, size):
    assert default_batch_size(items) == size


def test_the_default_leaves_no_tiny_last_batch():
    """As for 129 items, where batch normalisation would refuse the last one."""
    for items in [*range(1, 3000), *range(60_000, 60_500)]:
        size = default_batch_size(items)
        last = items % size or size
        assert last >= size // 4
        assert min(items, 24) <= size <= 128


@pytest.mark.parametrize("data", [(X, Y), DATA, Stream()])
def test_each_form_has_the_default(data):
    found = batches(data, "auto")
    assert found.full_size == (128 if isinstance(data, Stream) else 23)


def test_twenty_epochs_are_many_steps():
    many = torch.zeros(1000, 2), torch.zeros(1000, dtype=torch.int64)
    assert sum(1 for _ in batches(many, "auto")) == 10
    assert sum(1 for _ in batches(many, None)) == 1
    assert sum(1 for _ in batches(TensorDataset(*many), None)) == 1


def test_the_number_of_items():
    assert [num_items(data) for data in ((X, Y), [X, Y], DATA, DataLoader(DATA, 5))] == [23] * 4
    assert num_items(Stream()) is None
    assert num_items(DataLoader(Stream(), 5)) is None


def test_impossible_batch_sizes_are_refused():
    for data in ((X, Y), DATA):
        with pytest.raises(ValueError, match=r"batch_size must be a whole number .* got 0"):
            batches(data, 0)
        with pytest.raises(TypeError, match="batch_size must be a number, 'auto' or None"):
            batches(data, "large")
    with pytest.raises(ValueError, match="stream has no such size"):
        batches(Stream(), None)
