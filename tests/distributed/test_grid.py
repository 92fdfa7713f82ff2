"""Parts of batches and members, and what a grid refuses."""

import pytest

from felbo.distributed import Grid
from felbo.distributed.grid import own_part
from felbo.errors import SettingError


@pytest.mark.parametrize(("items", "ranks"), [(5, 3), (16, 4), (2, 4), (100, 8), (1, 1)])
def test_parts_are_disjoint_complete_and_even(items, ranks):
    parts = [list(range(items)[own_part(items, rank, ranks)]) for rank in range(ranks)]
    assert [item for part in parts for item in part] == list(range(items))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_grid_needs_processes():
    with pytest.raises(SettingError, match="torchrun"):
        Grid()
