"""Spatter and the shading of its drops."""

import numpy as np
import pytest
import torch
from scipy import ndimage

from felbo.data.corruptions import drops, filters

from .natural import UNIT, assert_same, found, in_bytes, seeded


def liquid(count=20):
    noise = 0.62 + 0.1 * torch.randn(count, 1, 32, 32, generator=seeded())
    smooth = filters.gaussian(noise, 0.7)
    return torch.where(smooth < 0.7, 0.0, (smooth * 255).floor())


def test_edges_of_a_square_are_its_outline():
    square = torch.zeros(1, 1, 20, 20)
    square[:, :, 6:14, 6:14] = 200.0
    edge = drops.edges(square)[0, 0]
    inside = ndimage.binary_erosion(square[0, 0].numpy() > 0, iterations=2)
    near = ndimage.binary_dilation(square[0, 0].numpy() > 0, iterations=1)
    assert not edge.numpy()[inside].any()
    assert not edge.numpy()[~near].any()
    assert ndimage.label(edge.numpy(), np.ones((3, 3)))[1] == 1  # one closed line
    filled = ndimage.binary_fill_holes(edge.numpy())
    assert filled[7:13, 7:13].all()


def test_weak_edges_count_only_where_they_touch_a_strong_one():
    step = torch.zeros(3, 1, 12, 12)
    step[0, :, :, 6:] = 20.0  # slope 80: weak
    step[1, :, :, 6:] = 60.0  # slope 240: strong
    step[2, :, :, 6:] = 20.0
    step[2, :, :4, 6:] = 60.0
    found = drops.edges(step)[:, 0].sum((1, 2))
    assert found[0] == 0
    assert found[1] == 12
    assert found[2] >= 12


def test_distance_to_edges_is_nearly_euclidean():
    edge = drops.edges(liquid())
    for each, distance in zip(edge[:, 0], drops.edge_distance(edge)[:, 0], strict=True):
        exact = ndimage.distance_transform_edt(~each.numpy())
        np.testing.assert_allclose(distance.numpy(), exact, rtol=0.025)
    assert drops.edge_distance(torch.zeros(1, 1, 8, 8, dtype=torch.bool)).unique().tolist() == [
        20.0
    ]


def test_equalize_spreads_the_values_by_their_ranks():
    x = torch.tensor([[3.0, 3.0, 3.0, 5.0, 5.0, 9.0, 9.0, 9.0]]).view(1, 1, 2, 4)
    # Of the five pixels above the lowest value, two are at 5 and three at 9.
    assert drops.equalize(x).flatten().tolist() == [0, 0, 0, 102, 102, 255, 255, 255]
    assert drops.equalize(torch.full((1, 1, 2, 2), 7.0)).unique().tolist() == [7.0]


def test_shading_lies_on_the_drops_and_reaches_1():
    wet = liquid()
    light = drops.drop_shading(wet)
    assert light.amin() == 0
    assert (light.amax((1, 2, 3)) == 1).all()
    assert (light[wet == 0] == 0).all()
    assert drops.drop_shading(torch.zeros(2, 1, 32, 32)).unique().tolist() == [0.0]


@pytest.mark.parametrize("severity", [1, 2, 3])
def test_water_adds_at_most_half_of_pale_turquoise(severity):
    black = torch.zeros(50, 3, 32, 32, dtype=torch.uint8)
    values = found("spatter", severity, black)
    np.testing.assert_array_equal(values.max((0, 2, 3)), [175 // 2, 238 // 2, 238 // 2])
    wet = (values > 0).mean()
    assert 0.01 < wet < 0.5


@pytest.mark.parametrize(("severity", "threshold", "sigma"), [(4, 0.69, 0.7), (5, 0.68, 0.5)])
def test_mud_covers_the_drops(severity, threshold, sigma):
    noise = 0.65 + 0.1 * torch.randn(6, 1, 32, 32, generator=seeded()).double().numpy()
    smooth = ndimage.gaussian_filter(noise, (0, 0, sigma, sigma), mode="nearest")
    cover = ndimage.gaussian_filter(
        (smooth > threshold).astype(float), (0, 0, 0.6, 0.6), mode="nearest"
    )
    cover[cover < 0.8] = 0
    mud = np.array([63, 42, 20]).reshape(1, 3, 1, 1) / 255
    assert_same(found("spatter", severity), in_bytes((1 - cover) * UNIT + cover * mud), 0.99)
