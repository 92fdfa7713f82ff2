import random
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from felbo.random import RandomStream, seed_everything, torch_seed


def draws():
    return random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002


def test_one_seed_repeats_python_numpy_and_torch():
    seed_everything(7)
    first = draws()
    seed_everything(7)
    assert draws() == first
    seed_everything(8)
    assert all(a != b for a, b in zip(draws(), first, strict=True))


def test_torch_seed_gives_the_numbers_of_manual_seed():
    for seed in (0, 12345, 2**40, -1):
        torch.manual_seed(seed)
        expected = torch.rand(3)
        with torch_seed(seed):
            assert torch.equal(torch.rand(3), expected)


def test_torch_seed_repeats_inside_and_leaves_the_outer_stream_alone():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    before = torch.rand(2)
    with torch_seed(1):
        inner = torch.rand(2)
    with torch_seed(1):
        assert torch.equal(torch.rand(2), inner)
    assert torch.equal(torch.cat([before, torch.rand(2)]), expected)


def test_torch_seed_puts_the_generator_back_after_an_error():
    state = torch.get_rng_state()
    try:
        with torch_seed(1):
            torch.rand(2)
            raise KeyError
    except KeyError:
        pass
    assert torch.equal(torch.get_rng_state(), state)


def test_blocks_inside_a_block_put_its_generator_back():
    with torch_seed(1):
        expected = torch.rand(4)
    with torch_seed(1):
        first = torch.rand(2)
        with torch_seed(2):
            torch.rand(2)
        assert torch.equal(torch.cat([first, torch.rand(2)]), expected)


def test_blocks_of_different_threads_run_one_after_another():
    """Three numbers each, with a pause between them in which the other could draw."""

    def draw(seed):
        with torch_seed(seed):
            numbers = []
            for _ in range(3):
                numbers.append(torch.rand(()).item())
                time.sleep(0.01)
            return numbers

    expected, state = [draw(1), draw(2)], torch.get_rng_state()
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(draw, (1, 2))) == expected
    assert torch.equal(torch.get_rng_state(), state)


def test_no_seed_draws_from_the_outer_stream():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with torch_seed(None):
        assert torch.equal(torch.rand(2), expected)
    assert not torch.equal(torch.rand(2), expected)


def test_blocks_of_a_stream_continue_each_other_whatever_comes_between():
    stream = RandomStream(5)
    found = []
    for _ in range(3):
        before = torch.get_rng_state()
        with stream.block():
            found.append(torch.rand(4))
        assert torch.equal(torch.get_rng_state(), before)
        torch.rand(9)
    with torch_seed(5):
        assert torch.equal(torch.rand(12), torch.cat(found))


def test_a_stream_goes_on_after_an_error_and_without_a_seed_is_none():
    stream, before = RandomStream(5), torch.get_rng_state()
    found = []

    def fails():
        with stream.block():
            found.append(torch.rand(2))
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert torch.equal(torch.get_rng_state(), before)
    with stream.block():
        second = torch.rand(2)
    with torch_seed(5):
        assert torch.equal(torch.rand(4), torch.cat([*found, second]))
    with RandomStream(None).block():
        torch.rand(1)
    assert not torch.equal(torch.get_rng_state(), before)
