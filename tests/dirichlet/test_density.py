"""Log-density and KL divergence against PyTorch, SciPy and arbitrary precision."""

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Dirichlet

from felbo.dirichlet import kl_divergence, log_normalizer, log_prob


def positive(*shape, seed=0, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.exp(scale * torch.randn(*shape, generator=generator, dtype=torch.float64))


def test_log_prob_against_torch_and_scipy():
    alpha = positive(4, 3, 6)
    probs = Dirichlet(torch.ones(4, 3, 6, dtype=torch.float64)).sample((5,))
    result = log_prob(probs, alpha)
    assert result.shape == (5, 4, 3)
    torch.testing.assert_close(result, Dirichlet(alpha).log_prob(probs), rtol=1e-12, atol=1e-10)
    point = probs[2, 1, 1].numpy()
    expected = scipy.stats.dirichlet.logpdf(point / point.sum(), alpha[1, 1].numpy())
    assert result[2, 1, 1].item() == pytest.approx(expected, rel=1e-10)


def test_log_prob_keeps_its_digits_in_float32():
    probs = torch.tensor([[0.7, 0.2, 0.1], [0.701, 0.2, 0.099]])
    alpha = torch.tensor([42000.0, 12000.0, 6000.0])
    expected = Dirichlet(alpha.double(), validate_args=False).log_prob(probs.double())
    result = log_prob(probs, alpha)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)


def test_log_prob_gradients():
    alpha = positive(2, 3, scale=1.0).requires_grad_()
    probs = Dirichlet(torch.ones(2, 3, dtype=torch.float64)).sample((4,)).requires_grad_()
    assert torch.autograd.gradcheck(log_prob, (probs, alpha))


def test_log_prob_on_the_border_under_the_uniform():
    assert log_prob(torch.tensor([[1.0, 0.0, 0.0]]), torch.ones(3)).item() == pytest.approx(
        np.log(2), rel=1e-6
    )


def test_log_normalizer_is_the_beta_function():
    alpha = torch.tensor([[2.5, 0.3], [1.0, 1.0]], dtype=torch.float64)
    expected = torch.from_numpy(scipy.special.betaln(*alpha.T.numpy()))
    torch.testing.assert_close(log_normalizer(alpha), expected)
    assert log_normalizer(alpha.float()).dtype == torch.float32


def test_kl_divergence_against_torch_with_broadcasting():
    alpha, beta = positive(4, 3, 6), positive(3, 6, seed=1)
    expected = torch.distributions.kl_divergence(Dirichlet(alpha), Dirichlet(beta.expand(4, 3, 6)))
    torch.testing.assert_close(kl_divergence(alpha, beta), expected, rtol=1e-10, atol=1e-10)
    uniform = torch.ones(6, dtype=torch.float64)
    assert kl_divergence(uniform, alpha).shape == (4, 3)


def test_kl_divergence_of_confident_float32_dirichlets():
    alpha = torch.tensor([59000.0, 600.0, 400.0])
    beta = torch.tensor([58000.0, 700.0, 300.0])
    with mpmath.workdps(50):
        a, b = ([mpmath.mpf(v) for v in x.tolist()] for x in (alpha, beta))
        exact = mpmath.loggamma(sum(a)) - mpmath.loggamma(sum(b))
        exact += sum(mpmath.loggamma(y) - mpmath.loggamma(x) for x, y in zip(a, b, strict=True))
        exact += sum(
            (x - y) * (mpmath.digamma(x) - mpmath.digamma(sum(a)))
            for x, y in zip(a, b, strict=True)
        )
    assert kl_divergence(alpha, beta).item() == pytest.approx(float(exact), rel=1e-6)


def test_kl_divergence_gradients():
    arguments = (positive(2, 3, scale=1.0).requires_grad_(), positive(3, seed=2).requires_grad_())
    assert torch.autograd.gradcheck(kl_divergence, arguments)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 20), st.floats(0.0, 6.0), st.integers(0, 10**6))
def test_kl_divergence_is_positive_and_zero_on_itself(classes, scale, seed):
    alpha, beta = positive(2, classes, seed=seed, scale=scale)
    size = (alpha + beta).sum().item()
    assert kl_divergence(alpha, beta).item() >= -1e-12 * size
    assert abs(kl_divergence(alpha, alpha).item()) <= 1e-12 * size


def test_integers_are_not_rounded_in_the_result():
    alpha, beta, probs = torch.tensor([1, 2]), torch.tensor([3, 1]), torch.tensor([[0, 1]])
    for found, expected in (
        (log_normalizer(alpha), log_normalizer(alpha.float())),
        (kl_divergence(alpha, beta), kl_divergence(alpha.float(), beta.float())),
        (log_prob(probs, torch.tensor([1, 2])), log_prob(probs.float(), torch.tensor([1.0, 2.0]))),
    ):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, expected, rtol=0.0, atol=0.0)
    assert kl_divergence(alpha.half(), beta).dtype == torch.float16


def test_mismatched_classes_are_refused():
    with pytest.raises(ValueError, match=r"same number of classes.*\[2, 3\] and \[1\]"):
        log_prob(torch.full((2, 3), 1 / 3), torch.ones(1))
    with pytest.raises(ValueError, match=r"concentration_q and concentration_p .*\[3\] and \[2\]"):
        kl_divergence(torch.ones(3), torch.ones(2))
