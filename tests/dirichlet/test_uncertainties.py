"""Uncertainty measures against closed forms, Monte Carlo and arbitrary precision."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Dirichlet

from felbo.dirichlet import sample_uncertainty, uncertainty


def test_uniform_dirichlet_of_two_classes():
    # -2 * integral of p log p over [0, 1] is 1/2.
    result = uncertainty(torch.ones(2, dtype=torch.float64))
    assert result.total.item() == pytest.approx(math.log(2))
    assert result.aleatoric.item() == pytest.approx(0.5)
    assert result.epistemic.item() == pytest.approx(math.log(2) - 0.5)


def test_counts_are_a_concentration():
    for found, expected in zip(
        uncertainty(torch.tensor([2, 1])), uncertainty(torch.tensor([2.0, 1.0])), strict=True
    ):
        assert found > 0
        torch.testing.assert_close(found, expected, rtol=0.0, atol=0.0)


def test_against_monte_carlo():
    torch.manual_seed(0)
    alpha = torch.tensor([[0.3, 2.0, 5.0], [20.0, 1.0, 0.1]], dtype=torch.float64)
    drawn = sample_uncertainty(Dirichlet(alpha).sample((200_000,)))
    for exact, estimate in zip(uncertainty(alpha), drawn, strict=True):
        torch.testing.assert_close(exact, estimate, rtol=0, atol=3e-3)


@pytest.mark.parametrize("precision", [1e2, 1e5, 1e8])
def test_epistemic_part_keeps_its_digits_at_high_precision(precision):
    # (K - 1) / 2z to leading order, next term (1 - sum 1/a) / 12 z^2.
    mean = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    expected = 1 / precision - (mean.reciprocal().sum().item() - 1) / (12 * precision**2)
    result = uncertainty(precision * mean).epistemic.item()
    assert result == pytest.approx(expected, rel=1e-5)
    assert uncertainty((precision * mean).float()).epistemic.item() == pytest.approx(
        expected, rel=1e-5
    )


def test_low_precision_is_all_epistemic():
    result = uncertainty(torch.full((4,), 1e-6, dtype=torch.float64))
    assert result.epistemic.item() == pytest.approx(math.log(4), rel=1e-4)


def test_class_with_zero_concentration_adds_nothing():
    narrow = uncertainty(torch.tensor([2.0, 3.0]))
    wide = uncertainty(torch.tensor([2.0, 3.0, 0.0]))
    for a, b in zip(narrow, wide, strict=True):
        torch.testing.assert_close(a, b)


def test_sample_uncertainty_of_opposite_one_hot_draws():
    result = sample_uncertainty(torch.eye(3))
    assert result.total.item() == pytest.approx(math.log(3))
    assert result.aleatoric.item() == 0
    assert result.epistemic.item() == pytest.approx(math.log(3))


def test_sample_uncertainty_of_equal_draws():
    probs = torch.randn(1000, 4, dtype=torch.float64).softmax(-1).expand(7, 1000, 4)
    result = sample_uncertainty(probs)
    torch.testing.assert_close(result.total, result.aleatoric)
    assert result.epistemic.shape == (1000,)
    # Half of the rounding errors are below zero.
    assert 0 == result.epistemic.min() <= result.epistemic.max() < 1e-14


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 30), st.floats(0.0, 5.0), st.integers(0, 10**6), st.booleans())
def test_parts_are_positive_and_add_up(classes, scale, seed, single):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(6, 3, classes, generator=generator, dtype=torch.float64)
    if single:
        logits = logits.float()
    for result in (uncertainty(logits[0].exp()), sample_uncertainty(logits.softmax(-1))):
        assert result.total.max() <= math.log(classes) + 1e-6
        assert result.aleatoric.min() >= -1e-12
        assert result.epistemic.min() >= 0
        torch.testing.assert_close(
            result.total, result.aleatoric + result.epistemic, rtol=1e-5, atol=1e-6
        )
        assert result.total.dtype == logits.dtype
