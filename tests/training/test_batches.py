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
    seen = []
    for inputs, labels in TensorBatches({"a": x, "b": (2 * x,)}, y, batch_size):
        assert (inputs["a"][:, 0] == labels).all()
        assert (inputs["b"][0][:, 1] == 2 * labels).all()
        seen += labels.tolist()
    assert sorted(seen) == list(range(23))


@pytest.mark.parametrize(
    ("batch_size", "sizes"), [(5, [5, 5, 5, 5, 3]), (22, [22, 1]), (23, [23]), (100, [23])]
)
def test_sizes_of_the_batches(batch_size, sizes):
    batches = TensorBatches(*data(), batch_size=batch_size)
    assert [len(labels) for labels in epoch(batches)] == sizes
    assert (len(batches), batches.full_size, batches.last_size) == (len(sizes), sizes[0], sizes[-1])


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


def test_without_a_batch_size_the_tensors_come_uncopied_and_without_gradient():
    x, y = data()
    ((inputs, labels),) = TensorBatches(x.requires_grad_(), y)
    assert inputs.data_ptr() == x.data_ptr()
    assert not inputs.requires_grad
    assert labels is y


def test_impossible_data_are_refused():
    x, y = data()
    with pytest.raises(ValueError, match="x has 23 items and y 22"):
        TensorBatches(x, y[:-1])
    with pytest.raises(ValueError, match="same number of items"):
        TensorBatches((x, x[:7]), y)
    with pytest.raises(ValueError, match="no training data"):
        TensorBatches(x[:0], y[:0])
    with pytest.raises(ValueError, match="at least 1, got 0"):
        TensorBatches(x, y, batch_size=0)
