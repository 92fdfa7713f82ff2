"""The parts that processes take of a batch are together the batch of one process."""

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import felbo
from felbo.errors import SettingError
from felbo.training.processes import Processes
from felbo.training.sources import as_batches

from .small import data, network


class Several:
    """The part of Fabric that dividing needs, with the first process's values at hand."""

    def __init__(self, rank, ranks):
        self.global_rank, self.world_size = rank, ranks

    def broadcast(self, value):
        return value

    def to_device(self, value):
        return value

    def setup_dataloaders(self, loader, use_distributed_sampler=True):
        assert self.world_size == 1 or not use_distributed_sampler
        return loader


def parts(given, batch_size, rank, ranks):
    fabric = Several(rank, ranks)
    processes = Processes(fabric, felbo.MAP(network()))
    torch.manual_seed(4)
    return list(as_batches(given, batch_size, fabric, torch.float32, processes))


def whole(given, batch_size):
    torch.manual_seed(4)
    return list(as_batches(given, batch_size, Several(0, 1), torch.float32))


def sources():
    x, y = data(49)
    return {
        "tensors": lambda: ((x, y), 16),
        "all at once": lambda: ((x, y), None),
        "dataset": lambda: (TensorDataset(x, y), 16),
        "loader": lambda: (DataLoader(TensorDataset(x, y), 16, shuffle=True), "auto"),
    }


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("source", sources())
def test_parts_make_up_the_batches_and_their_shares_one(source, ranks):
    expected = whole(*sources()[source]())
    found = [parts(*sources()[source](), rank, ranks) for rank in range(ranks)]
    for (x, y), *own in zip(expected, *found, strict=True):
        counted = [part for part in own if part[3] > 0]
        assert torch.equal(torch.cat([part[0] for part in counted]), x)
        assert torch.equal(torch.cat([part[1] for part in counted]), y)
        assert all(part[2] == len(y) for part in own)
        assert sum(part[3] for part in own) == pytest.approx(1.0)
        for part in own:
            assert part[3] == 0 or part[3] == len(part[1]) / len(y)


def test_a_process_without_an_item_takes_the_batch_with_weight_zero():
    x, _, items, share = parts(data(49), 16, 0, 2)[-1]
    assert (len(x), items, share) == (1, 1, 0.0)


def test_the_smallest_part_is_known():
    fabric = Several(0, 2)
    processes = Processes(fabric, felbo.MAP(network()))
    sizes = [
        as_batches(data(size), batch, fabric, torch.float32, processes).last_size
        for size, batch in ((48, 16), (51, 16), (49, 16), (50, 3), (50, None))
    ]
    assert sizes == [8, 1, 1, 1, 25]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(*data(), strict=True))


class Own(DataLoader):
    pass


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (DataLoader(Stream(), 16), "a stream"),
        (DataLoader(TensorDataset(*data()), batch_size=None), "a stream or a loader"),
        (Own(TensorDataset(*data()), 16), "got a Own"),
        (DataLoader(TensorDataset(*data()), 1), "cannot be divided among 2"),
    ],
)
def test_what_cannot_be_divided_is_refused(given, said):
    with pytest.raises(SettingError, match=said):
        parts(given, "auto", 0, 2)


def test_workers_load_the_same_parts():
    loader = DataLoader(TensorDataset(*data(20)), 8, num_workers=1)
    found = parts(loader, "auto", 1, 2)
    assert [len(part[1]) for part in found] == [4, 4, 2]
    assert torch.equal(found[0][0], data(20)[0][4:8])


def test_weights_are_drawn_alike_and_masks_are_not():
    second = Processes(Several(1, 2), felbo.MAP(network()))
    assert second.seed(7, felbo.MeanField(network())) == 7
    assert second.seed(7, felbo.MCDropout(network(), mask="draw")) == 7
    assert second.seed(7, felbo.MCDropout(network())) == 8
    assert second.seed(None, felbo.MAP(network())) is not None
    assert Processes(Several(0, 1), felbo.MAP(network())).seed(None, felbo.MAP(network())) is None
