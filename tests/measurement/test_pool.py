import math

import pytest
import torch

from felbo.measurement import Pool

BATCH = torch.zeros(4, 1)


def test_takes_points_of_the_pool_without_replacement():
    pool = Pool(torch.arange(20.0)[:, None], size=20)
    assert sorted(pool(BATCH)[:, 0].tolist()) == list(range(20))
    pool = Pool(torch.arange(20.0)[:, None], size=7)
    for _ in range(50):
        points = pool(BATCH)[:, 0]
        assert len(points.unique()) == 7
        assert set(points.tolist()) <= set(range(20))


def test_every_point_is_equally_likely():
    pool, steps = Pool(torch.arange(10), size=3), 4000
    counts = torch.stack([pool(BATCH) for _ in range(steps)]).flatten().bincount(minlength=10)
    deviation = math.sqrt(steps * 0.3 * 0.7)
    assert ((counts - steps * 0.3).abs() < 4 * deviation).all()


def test_without_a_size_every_step_gets_the_whole_pool_itself():
    data = torch.randn(5, 2)
    pool, batch = Pool(data), torch.zeros(4, 2)
    assert pool(batch) is data
    assert pool(batch) is data


def test_a_floating_batch_lends_its_dtype_and_leaves_the_pool_alone():
    data = torch.rand(5, 2, dtype=torch.float64)
    for pool in (Pool(data), Pool(data, size=5)):
        assert pool(torch.zeros(4, 2)).dtype == torch.float32
        assert pool.data is data
        assert set(pool(data).flatten().tolist()) == set(data.flatten().tolist())
    words = torch.arange(6).view(3, 2)
    assert torch.equal(Pool(words)(torch.zeros(4, 2)), words)


def test_a_pool_of_several_tensors_keeps_items_together():
    data = {"a": torch.arange(10.0)[:, None], "b": (torch.arange(10), -torch.arange(10))}
    batch = {"b": (torch.zeros(2), torch.zeros(2)), "a": torch.zeros(2, 1, dtype=torch.float64)}
    points = Pool(data, size=6)(batch)
    assert points["a"].dtype == torch.float64
    assert points["a"][:, 0].tolist() == points["b"][0].tolist() == (-points["b"][1]).tolist()
    assert len(set(points["b"][0].tolist())) == 6


def test_a_generator_makes_the_choice_repeat():
    def choices():
        pool = Pool(torch.arange(100), 5, torch.Generator().manual_seed(3))
        return [pool(BATCH).tolist() for _ in range(3)]

    first = choices()
    torch.rand(1)
    assert choices() == first
    assert first[0] != first[1]


@pytest.mark.parametrize("size", [0, 6])
def test_impossible_sizes_are_refused(size):
    with pytest.raises(ValueError, match=f"1 … 5, the size of the pool, got {size}"):
        Pool(torch.zeros(5, 2), size)


def test_an_empty_pool_is_refused():
    with pytest.raises(ValueError, match="pool is empty"):
        Pool(torch.zeros(0, 2))
