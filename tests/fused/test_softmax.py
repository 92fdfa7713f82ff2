"""The softmax against that of torch, for rows that take its own way and for longer ones."""

import pytest
import torch

from felbo.fused import softmax


@pytest.mark.parametrize("classes", [2, 10, 15, 16, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_values_are_those_of_torch(classes, dtype, scale):
    logits = scale * torch.randn(3, 50, classes, dtype=dtype)
    torch.testing.assert_close(softmax(logits), torch.softmax(logits, -1))
    torch.testing.assert_close(softmax(logits, dim=1), torch.softmax(logits, 1))
    expected = torch.softmax(logits, -1, dtype=torch.float64)
    torch.testing.assert_close(softmax(logits, dtype=torch.float64), expected)


@pytest.mark.parametrize("classes", [3, 20])
def test_infinite_logits_and_nan_stay_in_their_row(classes):
    logits = torch.randn(4, classes)
    logits[0] = torch.linspace(-1e30, 1e30, classes)
    logits[1, 0], logits[2, 0] = -torch.inf, torch.nan
    torch.testing.assert_close(softmax(logits), torch.softmax(logits, -1), equal_nan=True)
    assert softmax(logits)[:2].isfinite().all()
    assert softmax(logits)[2].isnan().all()


def test_no_items_and_derivatives():
    assert softmax(torch.empty(3, 0, 10)).shape == (3, 0, 10)
    logits = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(softmax, (logits,))
    assert torch.autograd.gradgradcheck(softmax, (logits,))
