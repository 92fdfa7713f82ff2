"""Fog, snow and frost, recomputed point by point."""

import math

import numpy as np
import pytest
import torch

from felbo.data.corruptions import frost, weather

from .natural import UNIT, assert_same, found, in_bytes, seeded


def test_plasma_is_midpoint_displacement_point_by_point():
    size, decay = 8, 2.0
    generator = seeded(5)
    height = np.zeros((size, size))
    step, amplitude = size, 1.0
    while step > 1:
        half, cells = step // 2, size // step
        for kind in ("centre", "across", "along"):
            noise = 2 * torch.rand(1, cells, cells, generator=generator)[0].numpy() - 1
            for a in range(cells):
                for b in range(cells):
                    i = a * step + (0 if kind == "across" else half)
                    j = b * step + (0 if kind == "along" else half)
                    arms = (
                        [(-half, -half), (-half, half), (half, -half), (half, half)]
                        if kind == "centre"
                        else [(-half, 0), (half, 0), (0, -half), (0, half)]
                    )
                    around = [height[(i + p) % size, (j + q) % size] for p, q in arms]
                    height[i, j] = np.mean(around) + amplitude * noise[a, b]
        step, amplitude = half, amplitude / decay**2
    expected = (height - height.min()) / (height.max() - height.min())
    actual = weather.plasma(1, size, decay, seeded(5))[0]
    np.testing.assert_allclose(actual.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("severity", "density", "decay"), [(1, 0.2, 3), (2, 0.5, 3), (3, 0.75, 2.5), (5, 1.5, 1.75)]
)
def test_fog(severity, density, decay):
    haze = weather.plasma(6, 32, decay, seeded()).numpy()[:, None]
    top = UNIT.max((1, 2, 3), keepdims=True)
    expected = (UNIT + density * haze) * top / (top + density)
    assert_same(found("fog", severity), in_bytes(expected))


@pytest.mark.parametrize(("severity", "kept"), list(enumerate((0.95, 0.9, 0.9, 0.85, 0.8), 1)))
def test_snow_on_black_is_a_pale_ground_with_flakes_that_look_alike_turned_around(severity, kept):
    black = torch.zeros(50, 3, 32, 32, dtype=torch.uint8)
    values = found("snow", severity, black)
    np.testing.assert_array_equal(values, values[:, :, ::-1, ::-1])
    np.testing.assert_array_equal(values[:, 0], values[:, 2])
    assert values.min() == int((1 - kept) * 0.5 * 255 + 1e-3)


def test_snow_whitens_by_the_luma():
    green = torch.zeros(50, 3, 32, 32, dtype=torch.uint8)
    green[:, 1] = 100
    grey = 0.587 * 100 / 255
    pale = [0.95 * c / 255 + 0.05 * max(c / 255, 1.5 * grey + 0.5) for c in (0, 100, 0)]
    darkest = found("snow", 1, green).min((0, 2, 3))
    np.testing.assert_array_equal(darkest, [int(255 * value) for value in pale])


@pytest.mark.parametrize(
    ("severity", "image", "ice"),
    [(1, 1.0, 0.2), (2, 1.0, 0.3), (3, 0.9, 0.4), (4, 0.85, 0.4), (5, 0.75, 0.45)],
)
def test_frost_adds_a_crop_of_every_fifth_pixel(severity, image, ice):
    # The byte at texture (i, j) says where it was taken: i // 5 in red, j // 5 in green.
    i, j = torch.meshgrid(torch.arange(300), torch.arange(350), indexing="ij")
    texture = torch.stack([i // 5, j // 5, torch.full_like(i, 90)]).to(torch.uint8)
    x = torch.from_numpy(UNIT).float()
    overlay = (frost.frost(x, severity, seeded(), (texture,)) - image * x) / ice * 255
    for crop in overlay.round().long():
        top, left = crop[0, 0, 0], crop[1, 0, 0]
        assert torch.equal(crop[0], (top + torch.arange(32)).unsqueeze(1).expand(32, 32))
        assert torch.equal(crop[1], (left + torch.arange(32)).expand(32, 32))
        assert crop[2].unique().tolist() == [90]


def test_frost_draws_every_texture_about_equally_often():
    textures = tuple(torch.full((3, 200, 200), 40 * n, dtype=torch.uint8) for n in range(6))
    found = frost.frost(torch.zeros(1200, 3, 32, 32), 1, seeded(), textures)[:, 0, 0, 0]
    counts = torch.bincount((found / 0.2 * 255 / 40).round().long())
    assert len(counts) == 6
    assert ((counts - 200).abs() < 4 * math.sqrt(200)).all()
