"""Noise, colour and compression, recomputed with the standard library and Pillow."""

import colorsys
import io
import math

import numpy as np
import pytest
import torch
from PIL import Image

from .natural import IMAGES, UNIT, assert_same, found, images_last, in_bytes, natural_images, seeded


@pytest.mark.parametrize(("severity", "std"), list(enumerate((0.04, 0.06, 0.08, 0.09, 0.10), 1)))
def test_gaussian_noise(severity, std):
    noise = torch.randn(IMAGES.shape, generator=seeded()).numpy()
    assert_same(found("gaussian_noise", severity), in_bytes(UNIT + std * noise))


@pytest.mark.parametrize(("severity", "std"), list(enumerate((0.06, 0.1, 0.12, 0.16, 0.2), 1)))
def test_speckle_noise(severity, std):
    noise = torch.randn(IMAGES.shape, generator=seeded()).numpy()
    assert_same(found("speckle_noise", severity), in_bytes(UNIT * (1 + std * noise)))


@pytest.mark.parametrize(("severity", "photons"), list(enumerate((500, 250, 100, 75, 50), 1)))
def test_shot_noise_has_the_mean_and_variance_of_poisson_counts(severity, photons):
    grey = torch.full((100, 3, 32, 32), 102, dtype=torch.uint8)  # 0.4
    values = found("shot_noise", severity, grey) / 255.0
    counts = np.rint(values * photons)
    # A count n is stored as ⌊255 n / λ⌋, at most a byte below.
    assert values.mean() == pytest.approx(0.4, abs=1 / 255)
    assert (values - counts / photons).min() > -1 / 255
    assert values.var() == pytest.approx(0.4 / photons, rel=0.06)


@pytest.mark.parametrize(("severity", "share"), list(enumerate((0.01, 0.02, 0.03, 0.05, 0.07), 1)))
def test_impulse_noise_turns_a_share_of_values_black_or_white(severity, share):
    grey = torch.full((100, 3, 32, 32), 102, dtype=torch.uint8)
    values = found("impulse_noise", severity, grey)
    deviation = math.sqrt(share / 2 / values.size)
    assert set(np.unique(values)) == {0, 102, 255}
    assert (values == 0).mean() == pytest.approx(share / 2, abs=4 * deviation)
    assert (values == 255).mean() == pytest.approx(share / 2, abs=4 * deviation)
    # Channels are hit independently.
    hit = values != 102
    assert (hit[:, 0] & hit[:, 1]).mean() < 3 * share**2


@pytest.mark.parametrize(("severity", "factor"), list(enumerate((0.75, 0.5, 0.4, 0.3, 0.15), 1)))
def test_contrast(severity, factor):
    expected = np.empty_like(UNIT)
    for n in range(len(UNIT)):
        for c in range(3):
            mean = UNIT[n, c].mean()
            expected[n, c] = mean + factor * (UNIT[n, c] - mean)
    assert_same(found("contrast", severity), in_bytes(expected))


def through_hsv(change):
    """Apply a function to (h, s, v) of each pixel with the standard library's conversion."""
    pixels = images_last(UNIT).reshape(-1, 3)
    changed = [colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*pixel))) for pixel in pixels]
    return np.array(changed).reshape(images_last(UNIT).shape).transpose(0, 3, 1, 2)


@pytest.mark.parametrize(("severity", "shift"), list(enumerate((0.05, 0.1, 0.15, 0.2, 0.3), 1)))
def test_brightness(severity, shift):
    expected = through_hsv(lambda h, s, v: (h, s, min(1.0, v + shift)))
    assert_same(found("brightness", severity), in_bytes(expected))


@pytest.mark.parametrize(
    ("severity", "factor", "shift"),
    [(1, 0.3, 0.0), (2, 0.1, 0.0), (3, 1.5, 0.0), (4, 2.0, 0.1), (5, 2.5, 0.2)],
)
def test_saturate(severity, factor, shift):
    expected = through_hsv(lambda h, s, v: (h, min(1.0, factor * s + shift), v))
    assert_same(found("saturate", severity), in_bytes(expected))


def test_black_is_brightened_to_grey_and_grey_saturated_to_red():
    grey = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    assert set(np.unique(found("brightness", 4, grey))) == {51}
    red, green, blue = found("saturate", 5, grey + 100)[0, :, 0, 0]
    assert (red, green, blue) == (100, 80, 80)


@pytest.mark.parametrize(("severity", "quality"), list(enumerate((80, 65, 58, 50, 40), 1)))
def test_jpeg_is_what_pillow_makes_of_each_image(severity, quality):
    actual = images_last(found("jpeg_compression", severity))
    for pixels, result in zip(images_last(IMAGES.numpy()), actual, strict=True):
        stream = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(pixels)).save(stream, "JPEG", quality=quality)
        np.testing.assert_array_equal(result, np.asarray(Image.open(stream)))


@pytest.mark.parametrize(("severity", "scale"), list(enumerate((0.95, 0.9, 0.85, 0.75, 0.65), 1)))
@pytest.mark.parametrize("size", [(32, 32), (33, 20)], ids=str)
def test_pixelate_is_what_pillow_makes_of_each_image(severity, scale, size):
    images = natural_images(6, 40)[..., : size[0], : size[1]]
    small = int(size[1] * scale), int(size[0] * scale)
    actual = images_last(found("pixelate", severity, images))
    for pixels, result in zip(images_last(images.numpy()), actual, strict=True):
        picture = Image.fromarray(np.ascontiguousarray(pixels))
        coarse = picture.resize(small, Image.Resampling.BOX)
        expected = coarse.resize(picture.size, Image.Resampling.BOX)
        np.testing.assert_array_equal(result, np.asarray(expected))
