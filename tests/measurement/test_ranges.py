import math

import pytest
import torch

from felbo.measurement.ranges import ChannelRange, moments


def test_the_range_of_several_batches_is_that_of_all_values():
    x, points = torch.randn(5, 3, 4, 4), torch.randn(2, 3, 4, 4)
    low, high = ChannelRange()(x, points)
    values = torch.cat([x, points]).movedim(1, 0).flatten(1)
    assert low.shape == high.shape == (1, 3, 1, 1)
    assert torch.equal(low.flatten(), values.amin(1))
    assert torch.equal(high.flatten(), values.amax(1))


def test_given_bounds_are_spread_over_channels_in_the_dtype_of_the_data():
    low, high = ChannelRange(-1.0, [1.0, 2.0])(torch.zeros(3, 2, 4, dtype=torch.float64))
    assert low.dtype == torch.float64
    assert low.tolist() == [[[-1.0], [-1.0]]]
    assert high.tolist() == [[[1.0], [2.0]]]


def test_moments_are_those_of_the_values_at_hand():
    x = torch.randn(7, 2, 3, dtype=torch.float64)
    mean, deviation = moments(x)
    values = x.movedim(1, 0).flatten(1)
    torch.testing.assert_close(mean.flatten(), values.mean(1))
    torch.testing.assert_close(deviation.flatten(), values.std(1, correction=0))
    assert moments(x[:1, :, :1])[1].tolist() == [[[0.0], [0.0]]]


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (0.0, None, "both low and high"),
        (1.0, 1.0, "low must lie below high"),
        ([0.0, 2.0], 1.0, "low must lie below high"),
        (-math.inf, 0.0, "low must be a finite number"),
        ([[0.0]], 1.0, "one per channel"),
    ],
)
def test_impossible_bounds_are_refused(low, high, message):
    with pytest.raises(ValueError, match=message):
        ChannelRange(low, high)


def test_bounds_for_another_number_of_channels_are_refused():
    with pytest.raises(ValueError, match="given for 2 channels, but the batch has 3"):
        ChannelRange([0.0, 0.0], 1.0)(torch.zeros(4, 3))
