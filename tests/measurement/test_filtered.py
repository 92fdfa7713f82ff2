import math

import numpy as np
import pytest
import scipy.ndimage
import torch

from felbo.measurement import PhaseNoise, RandomConvolution, Smoothed

SIZES = [(8, 8), (7, 9), (6, 5), (1, 5), (2, 2), (5, 1)]


def images(count, channels, size):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, channels, *size, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("strength", [0.3, 1.0])
def test_phase_noise_keeps_amplitudes_and_moves_phases_of_all_channels_alike(size, strength):
    x = images(20, 3, size)
    points = PhaseNoise(strength)(x)
    before, after = np.fft.fft2(x.numpy()), np.fft.fft2(points.numpy())
    np.testing.assert_allclose(np.abs(after), np.abs(before), atol=1e-10)
    moved = np.angle(after / before)
    alike = np.broadcast_to(moved[:, :1], moved.shape)
    np.testing.assert_allclose(np.exp(1j * moved), np.exp(1j * alike), atol=1e-8)
    assert np.abs(moved).max() <= strength * math.pi + 1e-9
    if max(size) > 2:
        # Uniform on ±strength π, but for frequencies that are their own negative.
        assert np.abs(moved).max() > 0.8 * strength * math.pi
    np.testing.assert_allclose(points.mean((-2, -1)), x.mean((-2, -1)), atol=1e-12)


def test_phases_are_disturbed_uniformly():
    x = images(4000, 1, (5, 5))
    moved = torch.angle(torch.fft.fft2(PhaseNoise(0.5)(x)) / torch.fft.fft2(x)).flatten(1)
    assert moved[:, 1:].abs().max() < math.pi / 2
    # The variance of U[−a, a] is a² / 3, here with a standard error of 1.4 %.
    torch.testing.assert_close(
        moved[:, 1:].square().mean(0),
        torch.full((24,), math.pi**2 / 12).double(),
        rtol=0.07,
        atol=0,
    )


@pytest.mark.parametrize("strength", [0.0, 1.1, math.nan])
def test_impossible_strengths_are_refused(strength):
    with pytest.raises(ValueError, match=r"\(0, 1\]"):
        PhaseNoise(strength)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("channels", [1, 3])
def test_random_convolutions_keep_mean_and_deviation_of_every_channel(size, channels):
    x = 5 + 3 * images(20, channels, size)
    points = RandomConvolution([3, 5])(x)
    torch.testing.assert_close(points.mean((-2, -1)), x.mean((-2, -1)))
    torch.testing.assert_close(points.var((-2, -1)), x.var((-2, -1)))


def test_a_random_convolution_is_one():
    """Each channel is a linear combination of the shifted channels of its own image."""
    x = images(6, 2, (12, 11))
    points = RandomConvolution([3])(x)
    for image, point in zip(x - x.mean((-2, -1), keepdim=True), points, strict=True):
        padded = torch.nn.functional.pad(image, (1, 1, 1, 1))
        shifted = padded.unfold(1, 12, 1).unfold(2, 11, 1).reshape(18, -1).T
        design = torch.cat([shifted, torch.ones(132, 1)], 1).double()
        for channel in point:
            target = channel.reshape(-1, 1)
            fitted = design @ torch.linalg.lstsq(design, target).solution
            torch.testing.assert_close(fitted, target)
    assert not torch.allclose(points[0, 0], points[0, 1])


def test_kernels_have_the_sizes_that_were_asked_for():
    weights = RandomConvolution([1, 3, 7])._kernels(300, 2, torch.zeros(1))
    reach = (weights != 0).any(1).any(1).any(1).sum(-1)
    assert reach.unique(return_counts=True)[0].tolist() == [1, 3, 7]
    assert reach.unique(return_counts=True)[1].min() > 60
    centre = weights[:, :, :, 3, 3].flatten()
    assert centre.std() == pytest.approx(1.0, abs=0.1)


def test_random_convolutions_leave_one_colour_alone():
    x = torch.full((2, 3, 8, 8), 0.5)
    torch.testing.assert_close(RandomConvolution()(x), x)


@pytest.mark.parametrize("sizes", [[], [2], [3, 0]])
def test_impossible_kernel_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="odd numbers ≥ 1"):
        RandomConvolution(sizes)


def test_smoothed_is_the_gaussian_filter_inside_the_image():
    x = images(3, 2, (41, 37))
    expected = scipy.ndimage.gaussian_filter(x.numpy(), 2.0, axes=(-2, -1), truncate=8)
    points = Smoothed((2.0, 2.0))(x)
    inside = (..., slice(16, -16), slice(16, -16))
    np.testing.assert_allclose(points[inside].numpy(), expected[inside], atol=1e-10)


@pytest.mark.parametrize("size", SIZES)
def test_smoothed_stays_in_the_range_and_keeps_constants(size):
    x = images(10, 3, size)
    points = Smoothed()(x)
    assert (points.amax((-2, -1)) <= x.amax((-2, -1))).all()
    assert (points.amin((-2, -1)) >= x.amin((-2, -1))).all()
    constant = torch.full((2, 3, *size), 0.7)
    torch.testing.assert_close(Smoothed()(constant), constant)


def test_widths_are_uniform_in_the_logarithm():
    """An impulse in a wide image has the height 1 / (2π width²)."""
    x = torch.zeros(2000, 1, 33, 33, dtype=torch.float64)
    x[:, :, 16, 16] = 1.0
    heights = Smoothed((1.0, 3.0))(x)[:, 0, 16, 16]
    positions = (1 / (2 * math.pi * heights)).sqrt().log() / math.log(3.0)
    assert positions.min() > -0.01
    assert positions.max() < 1.01
    assert positions.mean() == pytest.approx(0.5, abs=0.03)
    assert positions.var() == pytest.approx(1 / 12, abs=0.01)


@pytest.mark.parametrize("widths", [(0.0, 1.0), (2.0, 1.0), (1.0, math.inf)])
def test_impossible_widths_are_refused(widths):
    with pytest.raises(ValueError, match="smallest, largest"):
        Smoothed(widths)
