import copy
import gc
import pickle

import pytest
import torch

from felbo.training import TensorBatches
from felbo.training._memory import Memory


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3,), (4, 1, 5)])
def test_shape_and_dtype(shape, dtype):
    tensor = Memory().empty(shape, dtype)
    assert tensor.shape == shape
    assert tensor.dtype == dtype
    assert tensor.is_contiguous()
    assert not tensor.requires_grad


def test_a_block_is_used_again_once_nobody_looks_at_it():
    memory = Memory()
    first = memory.empty((100, 2), torch.float32)
    address = first.data_ptr()
    part = first[10:20].flatten()
    del first
    second = memory.empty((100, 2), torch.float32)
    assert second.data_ptr() != address
    del part
    third = memory.empty((50, 4), torch.float32)
    assert third.data_ptr() == address
    del third
    # Less than the block holds fits, too; more does not.
    less = memory.empty((7,), torch.float64)
    assert less.data_ptr() == address
    del less
    assert memory.empty((101, 2), torch.float32).data_ptr() != address


def test_a_graph_is_somebody():
    memory = Memory()
    x = memory.empty((5, 2), torch.float32).fill_(3.0)
    weight = torch.ones(2, 1, requires_grad=True)
    loss = (x @ weight).sum()
    del x
    memory.empty((5, 2), torch.float32).fill_(7.0)
    loss.backward()
    assert weight.grad.tolist() == [[15.0], [15.0]]


def test_larger_blocks_take_the_place_of_smaller_ones():
    memory = Memory()
    held = [memory.empty((10,), torch.float32) for _ in range(5)]
    del held
    first = memory.empty((1000,), torch.float32)
    address = first.data_ptr()
    del first
    assert memory.empty((1000,), torch.float32).data_ptr() == address


def test_another_default_device_changes_nothing():
    with torch.device("meta"):
        assert Memory().empty((3,), torch.float32).device.type == "cpu"


def test_few_blocks_are_kept():
    memory = Memory()
    held = [memory.empty((10,), torch.float32) for _ in range(20)]
    assert len({tensor.data_ptr() for tensor in held}) == 20
    assert len(memory._blocks) == 3


def test_batches_that_are_kept_stay_as_they_are(monkeypatch):
    monkeypatch.setattr("felbo.training.batches.GATHERED_BYTES", 0)
    x, y = torch.randn(60, 3), torch.arange(60)
    batches = TensorBatches(x, y, 4)
    for _ in range(3):
        for inputs, labels in list(batches):
            assert torch.equal(inputs, x[labels])
    gc.collect()
    used = {inputs.data_ptr() for inputs, _ in batches}
    assert len(used) <= 3


def test_batches_can_be_copied_and_pickled():
    batches = TensorBatches(torch.randn(6, 2), torch.arange(6), 4)
    next(iter(batches))
    for twin in (copy.deepcopy(batches), pickle.loads(pickle.dumps(batches))):
        assert sorted(y for _, labels in twin for y in labels.tolist()) == list(range(6))
