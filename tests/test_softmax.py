"""The softmax of short rows, where it takes its own way."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from felbo._softmax import row_sums, softmax, softmax_and_log

CLASSES = [2, 10, 15, 16, 40]


def logits(classes, scale, dtype=torch.float32):
    generator = torch.Generator().manual_seed(classes)
    return scale * torch.randn(3, 3000, classes, generator=generator, dtype=dtype)


@pytest.mark.parametrize("classes", CLASSES)
# Within the range of safe exponentials, at its border, and far beyond it.
@pytest.mark.parametrize("scale", [1.0, 10.0, 30.0, 1e4])
def test_values_and_logarithms(classes, scale):
    given_logits = logits(classes, scale)
    expected = given_logits.double().log_softmax(-1)
    probs, log_probs = softmax_and_log(given_logits)
    torch.testing.assert_close(probs, expected.exp().float(), rtol=1e-5, atol=1e-12)
    torch.testing.assert_close(softmax(given_logits), probs, rtol=1e-6, atol=1e-12)
    logs = probs.log() if log_probs is None else log_probs
    torch.testing.assert_close(logs, expected.float(), rtol=1e-5, atol=1e-5)


@given(
    st.lists(st.floats(-39.5, 39.5, width=32), min_size=2, max_size=15),
    st.sampled_from([torch.float32, torch.float64]),
)
@settings(deadline=None, max_examples=100)
def test_logits_of_safe_size_never_lose_a_class(row, dtype):
    many = torch.tensor(row, dtype=dtype).expand(8192, -1)
    probs, log_probs = softmax_and_log(many)
    assert log_probs is None
    assert bool((probs > 0).all())
    assert float(probs[-1].sum()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("classes", CLASSES)
def test_infinite_logits_and_nan(classes):
    given_logits = logits(classes, 1.0)
    given_logits[0, 0] = torch.linspace(-1e30, 1e30, classes)
    given_logits[1, 1, 0] = -torch.inf
    given_logits[2, 2, 0] = torch.nan
    probs = softmax(given_logits)
    assert probs[0, 0, -1] == 1.0
    assert probs[1, 1, 0] == 0.0
    assert bool(probs[2, 2].isnan().all())
    assert int(probs.isnan().sum()) == classes


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(dtype):
    assert softmax(logits(10, 20.0).to(dtype)).dtype == torch.float32
    assert softmax_and_log(logits(10, 20.0).to(dtype))[0].dtype == torch.float32


def test_no_items():
    assert softmax(torch.empty(3, 0, 10)).shape == (3, 0, 10)


@pytest.mark.parametrize("classes", CLASSES)
def test_row_sums_of_any_layout(classes):
    values = logits(classes, 1.0, torch.float64)
    for layout in (values, values.transpose(0, 1), values[:, ::2]):
        expected = layout.sum(-1, keepdim=True).expand_as(layout)
        torch.testing.assert_close(row_sums(layout).expand_as(layout), expected)


def test_autocast_does_not_reach_the_sums():
    given_logits = logits(10, 1.0)
    expected = softmax(given_logits)
    with torch.autocast("cpu", torch.bfloat16):
        found = softmax(given_logits)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
