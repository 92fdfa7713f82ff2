"""Blur and elastic transform, recomputed with loops and scipy."""

import math

import numpy as np
import pytest
import torch
from scipy import ndimage

from felbo.data.corruptions import blur, elastic, filters

from .natural import UNIT, assert_same, found, images_last, in_bytes, seeded


@pytest.mark.parametrize(("severity", "sigma"), list(enumerate((0.4, 0.6, 0.7, 0.8, 1.0), 1)))
def test_gaussian_blur_is_that_of_scipy(severity, sigma):
    expected = ndimage.gaussian_filter(UNIT, (0, 0, sigma, sigma), mode="nearest", truncate=4)
    assert_same(found("gaussian_blur", severity), in_bytes(expected))


def test_mirrored_gaussian_is_that_of_scipy_even_where_it_reaches_across_the_image():
    expected = ndimage.gaussian_filter(UNIT, (0, 0, 6.4, 6.4), mode="reflect", truncate=3)
    actual = filters.gaussian(torch.from_numpy(UNIT).float(), 6.4, truncate=3, mirrored=True)
    np.testing.assert_allclose(actual.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("severity", "radius", "sigma"),
    [(1, 0.3, 0.4), (2, 0.4, 0.5), (3, 0.5, 0.6), (4, 1.0, 0.2), (5, 1.5, 0.1)],
)
def test_defocus_blur_averages_over_a_soft_disk(severity, radius, sigma):
    y, x = np.mgrid[-8:9, -8:9]
    disk = (x**2 + y**2 <= radius**2).astype(float)
    bell = np.exp(-(np.array([-1, 0, 1]) ** 2) / (2 * sigma**2))
    softener = np.outer(bell, bell) / bell.sum() ** 2
    kernel = ndimage.convolve(disk / disk.sum(), softener, mode="constant")
    expected = ndimage.correlate(UNIT, kernel[None, None], mode="mirror")
    assert_same(found("defocus_blur", severity), in_bytes(expected), 0.998)


@pytest.mark.parametrize(("sigma", "rounds", "severity"), [(0.05, 1, 1), (0.4, 1, 3), (0.4, 2, 5)])
def test_glass_blur_is_the_published_loop(sigma, rounds, severity):
    generator = seeded()
    blurred = ndimage.gaussian_filter(UNIT, (0, 0, sigma, sigma), mode="nearest")
    pictures = images_last(in_bytes(blurred)).copy()
    for _ in range(rounds):
        back = torch.randint(0, 2, (2, 6, 32, 32), generator=generator).numpy()
        for n, picture in enumerate(pictures):
            for i in range(31, 1, -1):
                for j in range(31, 1, -1):
                    there = i - back[0, n, i, j], j - back[1, n, i, j]
                    # Both sides are views of one array: this copies instead of swapping.
                    picture[i, j], picture[there] = picture[there], picture[i, j]
    smooth = ndimage.gaussian_filter(
        pictures.transpose(0, 3, 1, 2) / 255.0, (0, 0, sigma, sigma), mode="nearest"
    )
    assert_same(found("glass_blur", severity), in_bytes(smooth))


@pytest.mark.parametrize(
    ("severity", "radius", "sigma"), [(1, 6, 1.0), (2, 6, 1.5), (3, 6, 2.0), (4, 8, 2), (5, 9, 2.5)]
)
def test_motion_blur_averages_along_a_line(severity, radius, sigma):
    angles = np.radians(90.0 * torch.rand(6, generator=seeded()).double().numpy() - 45.0)
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    expected = np.empty_like(UNIT)
    for n, angle in enumerate(angles):
        reach = 2 * radius
        kernel = np.zeros((2 * reach + 1, 2 * reach + 1))
        for step, weight in zip(steps, weights / weights.sum(), strict=True):
            down, right = step * math.sin(angle), step * math.cos(angle)
            kernel[reach + math.ceil(down - 0.5), reach + math.ceil(right - 0.5)] += weight
        for c in range(3):
            expected[n, c] = ndimage.correlate(UNIT[n, c], kernel, mode="nearest")
    assert_same(found("motion_blur", severity), np.rint(expected * 255).astype(np.uint8))


def test_smear_reads_right_at_0_degrees_and_down_at_90():
    dot = torch.zeros(2, 1, 16, 16)
    dot[:, :, 8, 8] = 1.0
    right, down = blur.smear(dot, 2, 2.0, torch.tensor([0.0, 90.0]))[:, 0]
    assert right.nonzero().tolist() == [[8, j] for j in range(4, 9)]
    assert down.nonzero().tolist() == [[i, 8] for i in range(4, 9)]


def zoomed(image, factor):
    """The middle of an image [H, W] enlarged by scipy."""
    size = len(image)
    kept = math.ceil(size / factor)
    first = (size - kept) // 2
    large = ndimage.zoom(image[first : first + kept, first : first + kept], factor, order=1)
    trim = (len(large) - size) // 2
    return large[trim : trim + size, trim : trim + size]


@pytest.mark.parametrize("factor", [1.0, 1.01, 1.06, 1.25, 1.75, 2.25])
def test_zoom_is_that_of_scipy(factor):
    actual = filters.zoom(torch.from_numpy(UNIT).float(), factor)[2, 1]
    np.testing.assert_allclose(actual.numpy(), zoomed(UNIT[2, 1], factor), atol=1e-6)


@pytest.mark.parametrize(("severity", "end"), list(enumerate((1.06, 1.11, 1.16, 1.21, 1.26), 1)))
def test_zoom_blur_averages_enlargements(severity, end):
    factors = np.arange(1, end, 0.01)
    image = UNIT[0, 0]
    mean = (image + sum(zoomed(image, factor) for factor in factors)) / (len(factors) + 1)
    assert_same(found("zoom_blur", severity)[0, 0], in_bytes(mean))


@pytest.mark.parametrize(("mode", "at_centres"), [("mirror", True), ("reflect", False)])
def test_elastic_reads_between_pixels_and_beyond_the_border_like_scipy(mode, at_centres):
    positions = 38 * torch.rand(6, 32, 32, 2, generator=seeded()) - 3
    actual = elastic._sample(
        torch.from_numpy(UNIT).float(), positions, mirror_at_centres=at_centres
    )
    where = positions[4].double().numpy()
    expected = ndimage.map_coordinates(
        UNIT[4, 1], [where[..., 1], where[..., 0]], order=1, mode=mode
    )
    np.testing.assert_allclose(actual[4, 1].numpy(), expected, atol=2e-5)


@pytest.mark.parametrize(
    ("severity", "amplitude", "sigma", "reach"),
    [(1, 0, 0, 2.56), (2, 1.6, 6.4, 2.24), (3, 2.56, 1.92, 1.92), (5, 3.2, 0.96, 0.96)],
)
def test_elastic_transform_step_by_step(severity, amplitude, sigma, reach):
    generator = seeded()
    uniform = torch.rand(6, 3, 2, generator=generator, dtype=torch.float64).numpy()
    noise = 2 * torch.rand(6, 2, 32, 32, generator=generator).double().numpy() - 1
    points = np.array([[26.0, 26.0], [26.0, 6.0], [6.0, 6.0]])  # (x, y), 10 around (16, 16)
    y, x = np.mgrid[:32, :32].astype(float)
    expected = np.empty_like(UNIT)
    for n in range(6):
        moved = points + reach * (2 * uniform[n] - 1)
        back = np.linalg.solve(np.column_stack([moved, np.ones(3)]), points)
        from_x, from_y = (back[0, k] * x + back[1, k] * y + back[2, k] for k in (0, 1))
        right, down = (
            amplitude * ndimage.gaussian_filter(layer, sigma, mode="reflect", truncate=3)
            for layer in noise[n]
        )
        for c in range(3):
            carried = ndimage.map_coordinates(UNIT[n, c], [from_y, from_x], order=1, mode="mirror")
            expected[n, c] = ndimage.map_coordinates(
                carried, [y + down, x + right], order=1, mode="reflect"
            )
    assert_same(found("elastic_transform", severity), in_bytes(expected), 0.998)
