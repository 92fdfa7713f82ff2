import math

import pytest
import torch

from felbo.layers import ActiveDropout


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_fraction_dropped_and_mean_are_right_in_both_modes(rate, training):
    size = 200_000
    out = ActiveDropout(rate).train(training)(torch.ones(size // 100, 100))
    dropped = (out == 0).double().mean().item()
    deviation = math.sqrt(rate * (1 - rate) / size)
    assert abs(dropped - rate) < 4 * deviation
    assert abs(out.double().mean().item() - 1) < 4 * deviation / (1 - rate)
    torch.testing.assert_close(out[out != 0].unique(), torch.tensor([1 / (1 - rate)]))


def test_rate_zero_changes_nothing():
    x = torch.randn(3, 4)
    assert ActiveDropout(0.0)(x) is x


def test_a_mask_per_item_differs_between_items_and_calls():
    layer = ActiveDropout(0.5)
    out = layer(torch.ones(2, 200))
    assert not torch.equal(out[0], out[1])
    assert not torch.equal(out, layer(torch.ones(2, 200)))


def test_a_mask_per_draw_is_shared_over_the_batch_and_new_in_each_call():
    layer = ActiveDropout(0.5, mask="draw")
    out = layer(torch.ones(5, 200))
    assert (out == out[0]).all()
    assert 0 < (out[0] == 0).sum() < 200
    assert not torch.equal(out, layer(torch.ones(5, 200)))


@pytest.mark.parametrize("mask", ["item", "draw"])
@pytest.mark.parametrize("shape", [(8, 30), (8, 30, 5), (8, 30, 5, 6)])
def test_whole_maps_live_or_die_together(shape, mask):
    out = ActiveDropout(0.5, mask, whole_maps=True)(torch.ones(shape))
    alive = out.reshape(8, 30, -1) != 0
    assert (alive.all(-1) == alive.any(-1)).all()
    assert alive[:, :, 0].any()
    assert not alive[:, :, 0].all()
    assert (alive == alive[0]).all() == (mask == "draw")


@pytest.mark.parametrize("mask", ["item", "draw"])
def test_the_memory_format_of_the_input_stays(mask):
    x = torch.randn(4, 6, 5, 5).contiguous(memory_format=torch.channels_last)
    out = ActiveDropout(0.5, mask)(x)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert 0 < (out == 0).sum() < out.numel()


def test_gradient_passes_through_the_kept_values_only():
    x = torch.randn(4, 50, requires_grad=True)
    out = ActiveDropout(0.3)(x)
    out.sum().backward()
    torch.testing.assert_close(x.grad, (out.detach() != 0) / 0.7)


@pytest.mark.parametrize("rate", [-0.1, 1.0, math.nan])
def test_impossible_rates_are_refused(rate):
    with pytest.raises(ValueError, match="rate must lie in"):
        ActiveDropout(rate)


def test_unknown_mask_is_refused():
    with pytest.raises(ValueError, match="'item' or 'draw', got 'batch'"):
        ActiveDropout(0.1, mask="batch")
