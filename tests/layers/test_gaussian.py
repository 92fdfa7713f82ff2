"""Gaussian KL against torch.distributions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from felbo.layers.gaussian import gaussian_kl


@settings(deadline=None)  # the first example pays for torch's own start
@given(
    mean=st.lists(st.floats(-5, 5), min_size=1, max_size=6),
    std=st.floats(1e-4, 10),
    prior_mean=st.floats(-2, 2),
    prior_std=st.floats(1e-2, 10),
)
def test_agrees_with_torch_distributions(mean, std, prior_mean, prior_std):
    m = torch.tensor(mean, dtype=torch.float64)
    s = torch.full_like(m, std)
    prior = Normal(torch.full_like(m, prior_mean), torch.full_like(m, prior_std))
    expected = kl_divergence(Normal(m, s), prior).sum()
    torch.testing.assert_close(gaussian_kl(m, s, prior_mean, prior_std), expected)


def test_is_a_sum_and_not_a_mean():
    one = gaussian_kl(torch.ones(1), torch.ones(1), 0.0, 1.0)
    many = gaussian_kl(torch.ones(10, 10), torch.ones(10, 10), 0.0, 1.0)
    assert one == pytest.approx(0.5)
    assert many == pytest.approx(50.0)
