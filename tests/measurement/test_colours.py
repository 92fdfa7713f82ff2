import pytest
import torch

from felbo.measurement import Monochrome, Noise

LOW, HIGH = torch.tensor([-1.0, 2.0, 0.0]), torch.tensor([0.0, 5.0, 0.1])
# Colours of very different ranges, each value of a channel at least once at its limits.
X = LOW[:, None, None] + (HIGH - LOW)[:, None, None] * torch.rand(
    500, 3, 5, 7, generator=torch.Generator().manual_seed(0)
)


@pytest.mark.parametrize("colours", ["range", "pixels"])
def test_every_image_has_one_colour(colours):
    points = Monochrome(colours)(X)
    assert points.shape == X.shape
    assert torch.equal(points, points[:, :, :1, :1].expand_as(points))
    assert len(points[:, 0, 0, 0].unique()) > 400


def test_colours_are_uniform_in_the_range_of_each_channel():
    colour = Monochrome()(X)[:, :, 0, 0]
    low, high = X.amin((0, 2, 3)), X.amax((0, 2, 3))
    position = (colour - low) / (high - low)
    assert 0 <= position.min() < 0.02
    assert 0.98 < position.max() <= 1
    torch.testing.assert_close(position.mean(0), torch.full((3,), 0.5), atol=0.06, rtol=0)
    assert position.T.corrcoef().fill_diagonal_(0).abs().max() < 0.2


def test_a_given_range_is_used():
    colour = Monochrome(low=[0.0, 1.0, 2.0], high=[1.0, 2.0, 3.0])(X)[:, :, 0, 0]
    assert colour.floor().unique(dim=0).tolist() == [[0.0, 1.0, 2.0]]


def test_colours_of_pixels_are_colours_of_the_batch():
    pixels = {tuple(p) for p in X.movedim(1, -1).reshape(-1, 3).tolist()}
    assert {tuple(c) for c in Monochrome("pixels")(X)[:, :, 0, 0].tolist()} <= pixels


def test_uniform_noise_fills_the_range_of_each_channel():
    points = Noise()(X)
    position = (points - X.amin((0, 2, 3), keepdim=True)) / (
        X.amax((0, 2, 3), keepdim=True) - X.amin((0, 2, 3), keepdim=True)
    )
    assert position.min() >= 0
    assert position.max() <= 1
    torch.testing.assert_close(position.var((0, 2, 3)), torch.full((3,), 1 / 12), rtol=0.03, atol=0)
    assert Noise(low=-3.0, high=-2.0)(X).amax() <= -2.0


@pytest.mark.parametrize("shape", [(4000, 3), (200, 3, 4, 5), (400, 3, 11)])
def test_gaussian_noise_has_the_moments_of_each_channel(shape):
    mean, deviation = torch.tensor([0.0, 5.0, -2.0]), torch.tensor([1.0, 0.1, 3.0])
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn(shape, generator=generator).movedim(1, -1) * deviation + mean).movedim(-1, 1)
    points = Noise("gaussian", generator=generator)(x).movedim(1, -1).flatten(0, -2)
    values = x.movedim(1, -1).flatten(0, -2)
    torch.testing.assert_close(points.std(0), values.std(0), rtol=0.06, atol=0)
    assert ((points.mean(0) - values.mean(0)) / deviation).abs().max() < 0.07


def test_what_cannot_be_meant_is_refused():
    with pytest.raises(ValueError, match="'range' or 'pixels', got 'red'"):
        Monochrome("red")
    with pytest.raises(ValueError, match="'uniform' or 'gaussian', got 'pink'"):
        Noise("pink")
    with pytest.raises(ValueError, match="for colours='range'"):
        Monochrome("pixels", low=0.0, high=1.0)
    with pytest.raises(ValueError, match="for uniform noise"):
        Noise("gaussian", low=0.0, high=1.0)
