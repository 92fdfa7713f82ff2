import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from felbo.data import REGISTRY, load, normalize, scale

ALL_BYTES = torch.arange(256, dtype=torch.uint8)


def test_scale_ends_are_exact_and_steps_equal():
    scaled = scale(ALL_BYTES)
    assert scaled.dtype == torch.float32
    assert (scaled[0], scaled[-1]) == (-1.0, 1.0)
    assert torch.allclose(scaled.diff(), torch.tensor(2 / 255), atol=1e-6)


@settings(deadline=None)  # a busy machine is no failure
@given(st.floats(-10, 10), st.floats(0.01, 10))
def test_scale_is_the_straight_line_between_low_and_high(low, width):
    scaled = scale(ALL_BYTES, low, low + width)
    expected = np.interp(np.arange(256), [0, 255], [low, low + width])
    assert np.allclose(scaled.numpy(), expected, atol=1e-5)


def test_normalize_standardises_each_channel():
    images = torch.randint(
        0, 256, (50, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    pixels = images.double() / 255
    mean = pixels.mean(dim=(0, 2, 3))
    std = pixels.std(dim=(0, 2, 3), correction=0)
    normal = normalize(images, mean.tolist(), std.tolist())
    assert normal.dtype == torch.float32
    expected = (pixels - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    assert torch.allclose(normal.double(), expected, atol=1e-6)
    assert torch.allclose(normal.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(normal.std(dim=(0, 2, 3), correction=0), torch.ones(3), atol=1e-5)


def test_inputs_are_left_untouched():
    images = ALL_BYTES.view(1, 1, 16, 16).clone()
    scale(images)
    normalize(images, [0.5], [0.5])
    assert torch.equal(images, ALL_BYTES.view(1, 1, 16, 16))


def test_floats_are_refused_rather_than_guessed():
    with pytest.raises(TypeError, match=r"uint8.*float32"):
        scale(torch.zeros(1))
    with pytest.raises(TypeError, match=r"uint8.*float32"):
        normalize(torch.zeros(1, 1, 2, 2), [0.5], [0.5])


def test_mismatched_statistics_are_refused():
    images = torch.zeros(1, 3, 2, 2, dtype=torch.uint8)
    with pytest.raises(ValueError, match="1 means and 3 standard deviations"):
        normalize(images, [0.5], [0.5] * 3)
    with pytest.raises(ValueError, match="above 0"):
        normalize(images, [0.5] * 3, [0.5, 0.0, 0.5])
    with pytest.raises(ValueError, match="low < high"):
        scale(images, 1.0, 1.0)


@pytest.mark.parametrize("name", list(REGISTRY))
def test_registered_statistics_are_those_of_the_training_pixels(name, published):
    images = load(name, "train", root=published(name, "train")).images
    values = torch.arange(256, dtype=torch.float64) / 255
    for channel, (mean, std) in enumerate(
        zip(REGISTRY[name].mean, REGISTRY[name].std, strict=True)
    ):
        # Counting bytes keeps the sums exact; 150 million floats would not be.
        counts = torch.bincount(images[:, channel].flatten(), minlength=256).double()
        share = counts / counts.sum()
        expected_mean = (share * values).sum().item()
        expected_std = (share * (values - expected_mean) ** 2).sum().sqrt().item()
        assert (mean, std) == pytest.approx((expected_mean, expected_std), abs=6e-9)
