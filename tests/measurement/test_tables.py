import math

import pytest
import torch
from scipy.spatial import Delaunay

from felbo.measurement import Beyond, Box, ShuffledColumns


def table(rows, columns, seed=0):
    """Columns of very different units."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    return values * 10.0 ** torch.arange(-2, columns - 2) + 3.0


def test_shuffled_columns_keep_the_values_of_each_column():
    x = table(50, 6)
    points = ShuffledColumns()(x)
    assert torch.equal(points.sort(0).values, x.sort(0).values)
    assert not torch.equal(points, x)


def test_every_item_is_equally_likely_in_every_column_and_columns_are_independent():
    x = torch.arange(4)[:, None].repeat(1, 2)
    steps, shuffled = 4000, ShuffledColumns(torch.Generator().manual_seed(0))
    first = torch.stack([shuffled(x)[1] for _ in range(steps)])
    counts = (4 * first[:, 0] + first[:, 1]).bincount(minlength=16)
    deviation = math.sqrt(steps / 16 * 15 / 16)
    assert ((counts - steps / 16).abs() < 4 * deviation).all()


@pytest.mark.parametrize("columns", [2, 3])
def test_points_beyond_are_outside_the_convex_hull(columns):
    x = table(40, columns)
    hull = Delaunay(x.numpy())
    for _ in range(20):
        points = Beyond(0.0, 0.5)(x)
        assert (hull.find_simplex(points.numpy()) < 0).all()


def test_points_beyond_lie_on_lines_through_two_items_past_all_projections():
    x = table(20, 4)
    unit = x.std(0)
    for k, point in enumerate(Beyond(0.5, 2.0)(x)):
        away, others = (point - x[k]) / unit, (x[k] - x) / unit
        cosine = (others @ away) / (others.norm(dim=1) * away.norm()).clamp_min(1e-12)
        partner = int(cosine.argmax())
        assert cosine[partner] == pytest.approx(1.0, abs=1e-9)
        line = others[partner] / others[partner].norm()
        place = (x / unit) @ line
        past = ((point / unit) @ line - place.max()) / (place.max() - place.min())
        assert 0.5 < past <= 2.0 + 1e-9


def test_the_distance_past_the_data_is_uniform_and_does_not_depend_on_units():
    x = torch.tensor([[0.0, 0.0], [1.0, 1000.0]]).repeat_interleave(500, 0)
    points = Beyond(0.0, 3.0)(x)
    points = points[(points != x).any(1)]
    torch.testing.assert_close(points[:, 1], 1000 * points[:, 0], rtol=1e-4, atol=1e-3)
    past = torch.where(points[:, 0] > 0.5, points[:, 0] - 1, -points[:, 0])
    assert past.min() > 0
    assert past.max() <= 3.0 + 1e-5
    assert past.mean() == pytest.approx(1.5, abs=0.15)
    assert past.var() == pytest.approx(0.75, abs=0.12)


def test_the_nearest_points_beyond_have_a_distance():
    x = torch.tensor([[0.0], [1.0]]).repeat_interleave(500, 0)
    points = Beyond(2.0, 3.0)(x)[:, 0]
    points = points[points != x[:, 0]]
    past = torch.where(points > 0.5, points - 1, -points)
    assert past.min() >= 2.0 - 1e-5
    assert past.max() <= 3.0 + 1e-5
    assert past.mean() == pytest.approx(2.5, abs=0.05)


def test_equal_items_and_constant_columns_give_finite_points():
    x = torch.ones(4, 3)
    torch.testing.assert_close(Beyond()(x), x)
    x[:, 0] = torch.arange(4.0)
    points = Beyond()(x)
    assert torch.equal(points[:, 1:], x[:, 1:])
    assert ((points[:, 0] < 0) | (points[:, 0] > 3)).all()


def test_a_box_is_filled_uniformly():
    x = table(30, 4)
    points = torch.cat([Box()(x) for _ in range(100)])
    position = (points - x.mean(0)) / x.std(0, correction=0) / 6
    assert position.abs().max() <= 1
    torch.testing.assert_close(
        position.square().mean(0), torch.full((4,), 1 / 3).double(), atol=0.03, rtol=0
    )
    given = Box(low=[0, 1, 2, 3], high=[1, 2, 3, 4])(x)
    assert given.floor().unique(dim=0).tolist() == [[0.0, 1.0, 2.0, 3.0]]


def test_a_hollow_box_has_its_points_on_the_surface_of_the_inner_one_or_outside():
    x = table(30, 2)
    points = torch.cat([Box(scale=8.0, nearest=4.0)(x) for _ in range(100)])
    distance = ((points - x.mean(0)) / x.std(0, correction=0)).abs().amax(1)
    assert distance.min() > 4 - 1e-9
    assert 7.9 < distance.max() <= 8
    # A quarter of the area lies within.
    assert (distance < 4 + 1e-9).double().mean() == pytest.approx(1 / 4, abs=0.03)


def test_points_move_out_of_a_hollow_box_straight_away_from_the_mean():
    x, points = table(30, 3), []
    for nearest in (0.0, 5.9):
        torch.manual_seed(0)
        points.append(Box(nearest=nearest)(x) - x.mean(0))
    torch.testing.assert_close(
        points[1], points[0] * (points[1][:, :1] / points[0][:, :1]), rtol=1e-6, atol=1e-6
    )


def test_a_hollow_box_leaves_constant_columns_alone():
    x = torch.ones(4, 2)
    assert torch.equal(Box(nearest=2.0)(x), x)
    x[:, 0] = torch.arange(4.0)
    points = Box(nearest=2.0)(x)
    assert torch.equal(points[:, 1], x[:, 1])
    assert ((points[:, 0] - 1.5).abs() >= 2 * x[:, 0].std(correction=0) - 1e-5).all()


@pytest.mark.parametrize("nearest", [-1.0, 6.0, math.nan])
def test_a_box_that_is_all_hollow_is_refused(nearest):
    with pytest.raises(ValueError, match="nearest must lie in"):
        Box(nearest=nearest)


def test_a_hollow_counts_deviations():
    with pytest.raises(ValueError, match="not low and high"):
        Box(low=0.0, high=1.0, nearest=2.0)


def test_what_a_single_row_cannot_tell_is_left_out():
    x = torch.tensor([[1.0, -2.0]])
    for points in (ShuffledColumns()(x), Beyond()(x), Box()(x), Box(nearest=2.0)(x)):
        assert torch.equal(points, x)
    assert not torch.equal(Box(low=-9.0, high=9.0)(x), x)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf])
def test_boxes_without_a_size_are_refused(scale):
    with pytest.raises(ValueError, match="must be positive"):
        Box(scale=scale)


@pytest.mark.parametrize(
    ("nearest", "farthest"), [(0, 0), (-1, 1), (2, 1), (0, math.inf), (math.nan, 1)]
)
def test_impossible_distances_beyond_the_data_are_refused(nearest, farthest):
    with pytest.raises(ValueError, match="0 ≤ nearest ≤ farthest"):
        Beyond(nearest, farthest)


def test_half_a_box_is_refused():
    with pytest.raises(ValueError, match="both low and high"):
        Box(low=0.0)
