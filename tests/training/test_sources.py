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
from felbo.training.sources import as_batches

X, Y = torch.arange(46.0).reshape(23, 2), torch.arange(23)
DATA = TensorDataset(X, Y)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(DATA)


def batches(data, batch_size=None):
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
