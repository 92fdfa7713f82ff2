"""The KL from two means is that from the draws, and so is its gradient."""

import pytest
import torch

from felbo.objectives.function_space import function_space_kl
from felbo.objectives.member_parallel import kl_from_means, means_over_draws

SMOOTHING, CAP = 1e-4, 500.0


@pytest.mark.parametrize("draws", [1, 2, 7])
@pytest.mark.parametrize("scale", [0.01, 1.0, 20.0])
def test_value_and_gradient_are_those_of_the_plain_form(draws, scale):
    logits = (scale * torch.randn(draws, 6, 4, dtype=torch.float64)).requires_grad_()
    beta = 0.1 + torch.rand(6, 4, dtype=torch.float64)
    expected = function_space_kl(logits, beta, CAP, SMOOTHING)
    (gradient,) = torch.autograd.grad(expected.sum(), logits)
    means = means_over_draws(logits, SMOOTHING)
    found = kl_from_means(means, draws, beta, CAP, tolerance=1e-4)
    (by_means,) = torch.autograd.grad(found.sum(), logits)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(by_means, gradient, rtol=1e-8, atol=1e-8)


def test_means_of_parts_add_up_to_the_mean_of_all():
    logits = torch.randn(5, 3, 4)
    whole = means_over_draws(logits, SMOOTHING)
    parts = [means_over_draws(part, SMOOTHING) for part in torch.split(logits, [2, 3])]
    torch.testing.assert_close(0.4 * parts[0] + 0.6 * parts[1], whole)
