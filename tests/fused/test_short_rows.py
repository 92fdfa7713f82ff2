"""Softmax and cross-entropy against those of torch, for rows that are exchanged and longer ones."""

import pytest
import torch
import torch.nn.functional as F

from felbo.fused import cross_entropy, softmax


@pytest.mark.parametrize("classes", [2, 10, 15, 16, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_values_are_those_of_torch(classes, dtype, scale):
    logits = scale * torch.randn(3, 50, classes, dtype=dtype)
    labels = torch.randint(0, classes, (50,))
    torch.testing.assert_close(softmax(logits), torch.softmax(logits, -1))
    assert softmax(logits).is_contiguous()
    expected = F.cross_entropy(logits.flatten(0, 1), labels.repeat(3))
    torch.testing.assert_close(cross_entropy(logits, labels), expected)


@pytest.mark.parametrize("classes", [3, 20])
def test_infinite_logits_and_nan_stay_in_their_row(classes):
    logits = torch.randn(4, classes)
    logits[0] = torch.linspace(-1e30, 1e30, classes)
    logits[1, 0], logits[2, 0] = -torch.inf, torch.nan
    torch.testing.assert_close(softmax(logits), torch.softmax(logits, -1), equal_nan=True)
    assert softmax(logits)[:2].isfinite().all()
    assert softmax(logits)[2].isnan().all()


def test_no_items():
    assert softmax(torch.empty(3, 0, 10)).shape == (3, 0, 10)


@pytest.mark.parametrize("classes", [5, 20])
def test_derivatives(classes):
    logits = torch.randn(2, 3, classes, dtype=torch.float64, requires_grad=True)
    for function in (softmax, lambda l: cross_entropy(l, torch.tensor([1, 0, 4]))):
        assert torch.autograd.gradcheck(function, (logits,))
        assert torch.autograd.gradgradcheck(function, (logits,))


@pytest.mark.parametrize("classes", [5, 20])
def test_options_reach_torch(classes):
    logits, labels = torch.randn(2, 3, classes), torch.tensor([1, -7, 4])
    kept = logits[:, [0, 2]].flatten(0, 1)
    expected = F.cross_entropy(kept, labels[[0, 2]].repeat(2))
    torch.testing.assert_close(cross_entropy(logits, labels, ignore_index=-7), expected)
