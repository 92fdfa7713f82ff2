import pytest
import torch

from felbo.training import TensorBatches


def data(size=23):
    return torch.arange(size)[:, None] * torch.ones(1, 2), torch.arange(size)


def epoch(batches):
    return [y.tolist() for _, y in batches]


@pytest.mark.parametrize("batch_size", [1, 5, 23, 100])
def test_each_item_comes_once_per_epoch_with_its_label(batch_size):
    x, y = data()
    batches = TensorBatches(x, y, batch_size)
    seen = []
    for inputs, labels in batches:
        assert (inputs[:, 0] == labels).all()
        seen += labels.tolist()
    assert sorted(seen) == list(range(23))


def test_sizes_of_the_batches():
    batches = TensorBatches(*data(), batch_size=5)
    assert [len(labels) for labels in epoch(batches)] == [5, 5, 5, 5, 3]
    assert len(batches) == 5
    assert len(TensorBatches(*data(), batch_size=23)) == 1
    assert len(TensorBatches(*data(), batch_size=22)) == 2


@pytest.mark.parametrize("gathered", [0, 100, 2**30])
def test_how_much_is_gathered_at_a_time_changes_nothing(gathered, monkeypatch):
    """Five items are 40 bytes: one batch at a time, two, all."""

    def run():
        batches = TensorBatches(*data(), 5, torch.Generator().manual_seed(0))
        return [(x.tolist(), y.tolist()) for x, y in batches]

    expected = run()
    monkeypatch.setattr("felbo.training.batches.GATHERED_BYTES", gathered)
    assert run() == expected
    assert [len(y) for _, y in expected] == [5, 5, 5, 5, 3]


def test_each_epoch_is_a_new_shuffle():
    batches = TensorBatches(*data(), batch_size=5)
    first, second = epoch(batches), epoch(batches)
    assert first != second
    assert [label for labels in first for label in labels] != list(range(23))


def test_a_generator_makes_the_epochs_repeat():
    def run(seed):
        batches = TensorBatches(*data(), 5, torch.Generator().manual_seed(seed))
        return epoch(batches), epoch(batches)

    first = run(1)
    torch.rand(1)
    assert run(1) == first
    assert run(2) != first


def test_without_a_batch_size_the_tensors_themselves_come():
    x, y = data()
    batches = TensorBatches(x, y)
    ((inputs, labels),) = batches
    assert inputs is x
    assert labels is y
    assert len(batches) == 1


def test_impossible_data_are_refused():
    x, y = data()
    with pytest.raises(ValueError, match="x has 23 items and y 22"):
        TensorBatches(x, y[:-1])
    with pytest.raises(ValueError, match="no training data"):
        TensorBatches(x[:0], y[:0])
    with pytest.raises(ValueError, match="at least 1, got 0"):
        TensorBatches(x, y, batch_size=0)
