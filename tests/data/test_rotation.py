import math
import time

import numpy as np
import pytest
import scipy.ndimage
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from felbo.data import load, rotate, scale


def smooth_images(batch=3, channels=2, height=28, width=28, seed=0):
    """Band-limited images, on which interpolation schemes agree to a few per mille."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(batch, channels, height, width))
    smooth = scipy.ndimage.gaussian_filter(noise, sigma=(0, 0, 3, 3), mode="wrap")
    return torch.from_numpy(smooth / smooth.std()).float()


def inner_disc(height, width, margin=2.0):
    y, x = np.mgrid[:height, :width]
    radius = np.hypot(y - (height - 1) / 2, x - (width - 1) / 2)
    return torch.from_numpy(radius <= min(height, width) / 2 - margin)


@pytest.mark.parametrize("quarter_turns", range(-4, 9))
@pytest.mark.parametrize("shape", [(3, 2, 5, 5), (3, 8, 8)])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_quarter_turns_of_squares_equal_rot90_exactly(quarter_turns, shape, mode):
    images = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    rotated = rotate(images, 90.0 * quarter_turns, fill=7.0, mode=mode)
    assert torch.equal(rotated, torch.rot90(images, quarter_turns, dims=(-2, -1)))


def test_ninety_degrees_is_counter_clockwise_as_viewed():
    top_right = torch.zeros(1, 4, 4)
    top_right[0, 0, 3] = 1.0
    assert rotate(top_right, 90)[0, 0, 0] == 1.0  # top right goes to top left
    # The interpolated path turns the same way: 80 degrees leave it near the top left.
    leftmost_column = rotate(top_right, 80)[0].sum(dim=0).argmax()
    assert leftmost_column == 0


def scipy_rotate(images, degrees, fill):
    return scipy.ndimage.rotate(
        images, degrees, axes=(2, 3), reshape=False, order=1, mode="grid-constant", cval=fill
    )


def test_the_scipy_oracle_turns_counter_clockwise():
    images = np.random.default_rng(0).normal(size=(1, 1, 6, 6))
    assert np.allclose(scipy_rotate(images, 90, 0.0), np.rot90(images, 1, axes=(2, 3)))


@pytest.mark.parametrize("degrees", [-100.0, -30.0, 10.0, 45.0, 77.5, 120.0, 170.0])
@pytest.mark.parametrize("fill", [0.0, -1.0, 0.3])
@pytest.mark.parametrize("size", [(28, 28), (27, 27), (20, 31)])
def test_bilinear_equals_scipy_with_constant_fill_everywhere(degrees, fill, size):
    images = smooth_images(height=size[0], width=size[1]).double()
    expected = torch.from_numpy(scipy_rotate(images.numpy(), degrees, fill))
    assert torch.allclose(rotate(images, degrees, fill=fill), expected, atol=1e-6)


@pytest.mark.parametrize("degrees", [15, 60, 135])
def test_agrees_with_pillow_inside(degrees):
    images = smooth_images()
    expected = torch.stack(
        [
            torch.stack(
                [
                    torch.from_numpy(
                        np.array(
                            Image.fromarray(channel.numpy()).rotate(
                                degrees, resample=Image.Resampling.BILINEAR
                            )
                        )
                    )
                    for channel in image
                ]
            )
            for image in images
        ]
    )
    inside = inner_disc(28, 28)
    difference = (rotate(images, degrees) - expected)[..., inside].abs().max()
    assert difference < 1e-3
    assert (rotate(images, -degrees) - expected)[..., inside].abs().max() > 0.5


def test_nearest_picks_values_that_were_there():
    images = torch.arange(1.0, 26.0).view(1, 5, 5)
    rotated = rotate(images, 33, fill=-1.0, mode="nearest")
    assert set(rotated.flatten().tolist()) <= {-1.0, *images.flatten().tolist()}
    assert rotated[0, 2, 2] == images[0, 2, 2]
    assert (rotated == -1.0).any()


def test_corners_have_the_fill_value():
    rotated = rotate(torch.ones(2, 1, 28, 28), 45, fill=-1.0)
    assert torch.allclose(rotated[..., 0, 0], torch.tensor(-1.0))
    assert torch.allclose(rotated[..., 13:15, 13:15], torch.tensor(1.0))


@settings(deadline=None)  # a busy machine is no failure
@given(st.floats(-720, 720), st.floats(-2, 2))
def test_an_image_of_the_fill_value_stays_as_it_is(degrees, fill):
    images = torch.full((2, 9, 9), fill)
    assert torch.allclose(rotate(images, degrees, fill=fill), images, atol=1e-5)


@settings(deadline=None)  # a busy machine is no failure
@given(st.floats(-180, 180))
def test_there_and_back_again_is_close_to_identity(degrees):
    images = smooth_images(batch=1, channels=1)
    back = rotate(rotate(images, degrees), -degrees)
    inside = inner_disc(28, 28, margin=4.0)
    assert (back - images)[..., inside].abs().max() < 0.15


def test_each_image_is_rotated_as_if_alone_and_batch_layouts_agree():
    images = smooth_images(batch=4, channels=1)
    together = rotate(images, 25, fill=0.5)
    for index in range(4):
        assert torch.equal(together[index : index + 1], rotate(images[index : index + 1], 25, 0.5))
    assert torch.equal(together[:, 0], rotate(images[:, 0], 25, fill=0.5))


def test_an_empty_batch_stays_empty():
    assert rotate(torch.empty(0, 1, 28, 28), 30).shape == (0, 1, 28, 28)


def test_gradient_reaches_the_images():
    images = smooth_images(batch=1, channels=1, height=7, width=7).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: rotate(x, 40, fill=-1.0), images)


@pytest.mark.parametrize(
    ("images", "kwargs", "error", "match"),
    [
        (torch.zeros(1, 1, 4, 4, dtype=torch.uint8), {}, TypeError, "uint8.*scale"),
        (torch.zeros(4, 4), {}, ValueError, r"\[B, C, H, W\].*\(4, 4\)"),
        (torch.zeros(1, 4, 4), {"degrees": math.nan}, ValueError, "finite degrees"),
        (torch.zeros(1, 4, 4), {"fill": math.inf}, ValueError, "finite"),
        (torch.zeros(1, 4, 4), {"mode": "bicubic"}, ValueError, "'bicubic'"),
    ],
)
def test_bad_input_is_refused(images, kwargs, error, match):
    with pytest.raises(error, match=match):
        rotate(images, **{"degrees": 10.0, **kwargs})


def test_ten_thousand_digits_rotate_well_within_a_second(published):
    images = scale(load("mnist", "test", root=published("mnist", "test")).images)
    start = time.process_time()
    rotated = rotate(images, 30, fill=-1.0)
    assert time.process_time() - start < 1.0
    # Digits lie around the centre, so what turns out of the image is background.
    ink, rotated_ink = (images + 1).sum().item(), (rotated + 1).sum().item()
    assert rotated_ink == pytest.approx(ink, rel=0.01)
