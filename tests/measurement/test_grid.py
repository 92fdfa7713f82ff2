import math

import numpy as np
import pytest
import torch

from felbo.measurement import Grid


def test_points_are_the_lattice_with_the_last_dimension_fastest():
    grid = Grid([(0.0, 1.0), (-1.0, 1.0)], step=0.5)
    assert grid.shape == (3, 5)
    first, second = np.meshgrid([0, 0.5, 1], [-1, -0.5, 0, 0.5, 1], indexing="ij")
    expected = np.stack([first.ravel(), second.ravel()], axis=1)
    np.testing.assert_allclose(grid.points.numpy(), expected)


@pytest.mark.parametrize(
    ("bounds", "step", "count"),
    [((0.0, 1.0), 0.1, 11), ((0.0, 0.3), 0.1, 4), ((-1.5, 2.5), 0.05, 81), ((0.0, 7.0), 0.7, 11)],
)
def test_both_bounds_are_points_despite_rounding(bounds, step, count):
    points = Grid([bounds], step).points[:, 0]
    assert len(points) == count
    assert points[0] == bounds[0]
    assert points[-1].item() == pytest.approx(bounds[1], abs=1e-6)


def test_no_point_lies_outside_the_box():
    points = Grid([(0.0, 1.0)], step=0.4).points
    torch.testing.assert_close(points, torch.tensor([[0.0], [0.4], [0.8]]))


def test_a_floating_batch_lends_its_dtype_and_nobody_moves_the_grid():
    grid = Grid([(0.0, 1.0)], step=0.25)
    for dtype in (torch.float64, torch.float16, torch.float32):
        points = grid(torch.zeros(2, 1, dtype=dtype))
        assert points.dtype == dtype
        assert points.flatten().tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
        assert grid.points.dtype == torch.float32
        points += 1
        assert grid.points.flatten().tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_an_integer_batch_does_not_collapse_the_grid(dtype):
    grid = Grid([(0.0, 1.0)], step=0.25)
    assert grid(torch.zeros(2, 1, dtype=dtype)).flatten().tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert grid(torch.zeros(2, 1)).flatten().tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_inputs_of_several_tensors_are_refused():
    with pytest.raises(TypeError, match="Grid needs inputs that are one tensor, got a tuple of 2"):
        Grid([(0.0, 1.0)], step=0.5)((torch.zeros(2, 1), torch.zeros(2, 1)))


@pytest.mark.parametrize("bound", [(1.0, 1.0), (1.0, 0.0), (0.0, math.inf), (math.nan, 1.0)])
def test_impossible_bounds_are_refused(bound):
    with pytest.raises(ValueError, match="low < high"):
        Grid([(0.0, 1.0), bound], step=0.5)


def test_impossible_grids_are_refused():
    with pytest.raises(ValueError, match="step must be positive, got 0"):
        Grid([(0.0, 1.0)], step=0)
    with pytest.raises(ValueError, match="got none"):
        Grid([], step=0.5)
    with pytest.raises(ValueError, match="has 121 points, more than max_points = 120"):
        Grid([(0.0, 1.0)] * 2, step=0.1, max_points=120)
