"""The fit against an independent maximiser, on ordinary and on hostile draws."""

import numpy as np
import pytest
import torch
from felbo.dirichlet._fit import precision_of_statistics
from felbo.dirichlet._precision import with_total
from felbo.dirichlet._statistics import spread_of_statistics
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import digamma

from felbo.dirichlet import fit, fit_statistics, smooth

DTYPES = [torch.float32, torch.float64]


def log_minus_digamma(x):
    """Return log x - psi(x), by its series where the difference would cancel."""
    x = np.asarray(x, dtype=np.float64)
    large = np.maximum(x, 1e3)
    series = 1 / (2 * large) + 1 / (12 * large**2) - 1 / (120 * large**4)
    return np.where(x > 1e3, series, np.log(x) - digamma(np.minimum(x, 1e3)))


def maximiser(draws, lower, upper):
    """Return the constrained maximiser for one item ``[M, K]``, by bisection on the derivative."""
    draws = draws.double().numpy()
    draws = draws / draws.sum(-1, keepdims=True)
    draws = draws[:, draws.max(0) > 0]
    if draws.shape[1] == 1:
        return upper
    if (draws == 0).any():
        return lower
    mean = draws.mean(0)
    ratio = draws / mean
    spread = (mean * (ratio - 1 - np.log(ratio)).mean(0)).sum()

    def derivative(z):
        return (mean * log_minus_digamma(z * mean)).sum() - log_minus_digamma(z) - spread

    if derivative(lower) <= 0:
        return lower
    if derivative(upper) >= 0:
        return upper
    return brentq(derivative, lower, upper, rtol=1e-12)


def softmax_draws(classes, draws, scale, noise, dtype, items=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centre = scale * torch.randn(1, items, classes, generator=generator, dtype=torch.float64)
    jitter = noise * torch.randn(draws, items, classes, generator=generator, dtype=torch.float64)
    return torch.softmax((centre + jitter).to(dtype), -1)


def assert_fitted(probs, lower, upper, **kwargs):
    result = fit(probs, **kwargs)
    flat = probs.reshape(len(probs), -1, probs.shape[-1])
    expected = [maximiser(flat[:, i], lower, upper) for i in range(flat.shape[1])]
    np.testing.assert_allclose(result.precision.flatten().double(), expected, rtol=3e-5)
    assert result.iterations.max() <= 8
    assert result.converged.all()
    assert result.concentration.dtype == result.precision.dtype == probs.dtype
    torch.testing.assert_close(result.mean, probs.double().mean(0).to(probs.dtype))
    torch.testing.assert_close(result.concentration, result.precision[..., None] * result.mean)
    return result


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("classes", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("draws", [2, 10, 100])
def test_softmax_draws(classes, draws, dtype):
    for scale in (0.1, 3, 30):
        for noise in (1e-7, 1e-4, 0.01, 1, 10):
            probs = softmax_draws(classes, draws, scale, noise, dtype)
            assert_fitted(probs, classes, 1e8)
            assert_fitted(smooth(probs), classes, 5e4, max_precision=5e4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("classes", [2, 10, 300])
def test_dirichlet_draws_and_a_wide_bracket(classes, dtype):
    torch.manual_seed(1)
    for concentration in (0.01, 0.1, 1.0, 100.0, 1e6):
        alpha = concentration * torch.rand(20, classes, dtype=torch.float64)
        probs = torch.distributions.Dirichlet(alpha).sample((7,)).to(dtype)
        assert_fitted(probs, 1e-3, 1e12, min_precision=1e-3, max_precision=1e12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_hot_draws(dtype):
    probs = torch.eye(4, dtype=dtype)[torch.tensor([[0, 1, 2], [0, 1, 3], [0, 2, 3]])]
    result = fit(probs, max_precision=1000)
    assert result.precision.tolist() == [1000, 4, 4]
    assert result.iterations.tolist() == [0, 0, 0]
    assert result.converged.all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_class_that_no_draw_allows_drops_out(dtype):
    probs = softmax_draws(5, 6, 1.0, 0.5, dtype, items=8)
    padded = torch.cat([probs, torch.zeros_like(probs)], -1)
    narrow, wide = fit(probs, min_precision=2), assert_fitted(padded, 2, 1e8, min_precision=2)
    torch.testing.assert_close(wide.precision, narrow.precision)
    assert wide.concentration[..., 5:].eq(0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_zero_among_the_draws_of_a_class_gives_the_lower_end(dtype):
    probs = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.499, 0.001]], dtype=dtype)
    assert fit(probs).precision.item() == 3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("draws", [2, 3, 10, 99])
def test_equal_draws_give_the_upper_end_without_an_iteration(draws, dtype):
    probs = softmax_draws(10, 1, 5.0, 0.0, dtype, items=50).expand(draws, -1, -1)
    result = fit(probs, max_precision=1e15)
    assert result.precision.eq(torch.tensor(1e15, dtype=dtype)).all()
    assert result.iterations.eq(0).all()


def test_tiny_probabilities_are_not_taken_for_zero():
    probs = torch.tensor([[1.0, 1e-30], [0.5, 0.5], [1e-200, 1.0]], dtype=torch.float64)
    expected = maximiser(probs, 1e-6, 1e8)
    assert expected > 1e-3
    result = fit(probs, min_precision=1e-6)
    assert result.precision.item() == pytest.approx(expected, rel=1e-5)


def test_known_precision_is_recovered_from_many_draws():
    torch.manual_seed(0)
    alpha = torch.tensor([[3.0, 1.0, 6.0], [20.0, 50.0, 30.0], [0.2, 0.5, 0.3]]).double()
    probs = torch.distributions.Dirichlet(alpha).sample((20000,))
    result = fit(probs, min_precision=0.1)
    # Standard error of the precision: about sqrt(2 / (M (K - 1))) relative, here 0.7 %.
    torch.testing.assert_close(result.precision, alpha.sum(-1), rtol=0.03, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_batch_shape_and_neighbours_do_not_matter(dtype):
    probs = torch.cat(
        [softmax_draws(4, 5, s, n, dtype, items=2) for s in (1, 20) for n in (0.0, 0.1, 5)], 1
    )
    whole = fit(probs)
    shaped = fit(probs.reshape(5, 3, 2, 2, 4))
    assert torch.equal(shaped.precision.flatten(), whole.precision)
    for i in range(12):
        alone = fit(probs[:, i])
        assert alone.precision.shape == ()
        torch.testing.assert_close(alone.precision, whole.precision[i], rtol=1e-6, atol=0)
        assert alone.iterations == whole.iterations[i]


def test_more_items_than_one_block_holds():
    probs = softmax_draws(50, 3, 2.0, 0.5, torch.float64, items=3000)
    whole = fit(probs)
    last = fit(probs[:, -5:])
    torch.testing.assert_close(whole.precision[-5:], last.precision)
    assert whole.precision.shape == (3000,)
    assert whole.converged.shape == (3000,)


def test_no_items():
    result = fit(torch.zeros(3, 0, 4))
    assert result.concentration.shape == (0, 4)
    assert result.precision.shape == result.iterations.shape == (0,)


def test_single_draw_takes_the_upper_end():
    result = fit(torch.tensor([[0.25, 0.75]]), max_precision=1000)
    assert result.concentration.tolist() == [250, 750]


def test_statistics_give_the_same_fit():
    probs = softmax_draws(10, 8, 3.0, 0.7, torch.float64, items=200)
    expected = fit(probs, max_precision=1e5)
    result = fit_statistics(probs.mean(0), probs.log().mean(0), max_precision=1e5)
    torch.testing.assert_close(result.precision, expected.precision, rtol=1e-6, atol=0)
    torch.testing.assert_close(result.concentration, expected.concentration, rtol=1e-6, atol=0)
    single = fit_statistics(probs.mean(0).float(), probs.log().mean(0).float(), max_precision=1e5)
    assert single.precision.dtype == torch.float32
    torch.testing.assert_close(single.precision.double(), expected.precision, rtol=1e-3, atol=0)


@pytest.mark.parametrize("classes", [2, 10, 1000])
@pytest.mark.parametrize("noise", [1.0, 0.03])
@pytest.mark.parametrize("cap", [1e4, 1e8])
def test_precision_of_statistics_in_both_precisions(classes, noise, cap):
    draws = smooth(softmax_draws(classes, 10, 3.0, noise, torch.float64))
    expected = fit(draws, max_precision=cap)
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.float64, 1e-6)):
        mean, mean_log = draws.mean(0).to(dtype), draws.log().mean(0).to(dtype)
        spread = spread_of_statistics(mean.double(), mean_log.double()).unsqueeze(-1).to(dtype)
        points = with_total(mean)
        found = precision_of_statistics(points, mean_log, spread, float(classes), cap)
        assert found.dtype == dtype
        # Rounding of the statistics costs what fit_statistics says.
        rounding = 2 * torch.finfo(dtype).eps * expected.precision / classes
        difference = (found.squeeze(-1) / expected.precision - 1).abs()
        assert (difference <= tolerance + rounding).all()


def test_statistics_with_zeros_and_nan():
    mean = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.4, 0.1], [float("nan"), 0.4, 0.6]])
    mean_log = torch.tensor([[-0.8, -0.7, -torch.inf], [-0.8, -0.9, -torch.inf], [-1.0, -1, -1]])
    result = fit_statistics(mean, mean_log)
    pair = fit_statistics(mean[0, :2], mean_log[0, :2], min_precision=3)
    torch.testing.assert_close(result.precision[0], pair.precision)
    assert result.precision[1] == 3
    assert result.precision[2].isnan()
    assert result.converged.tolist() == [True, True, False]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 30),
    st.integers(2, 20),
    st.floats(0.0, 60.0),
    st.floats(0.0, 30.0),
    st.sampled_from(DTYPES),
    st.integers(0, 10**6),
)
def test_any_softmax_draws(classes, draws, scale, noise, dtype, seed):
    probs = softmax_draws(classes, draws, scale, noise, dtype, seed=seed)
    result = assert_fitted(probs, classes, 1e8)
    assert ((result.precision >= classes) & (result.precision <= 1e8)).all()
    order = torch.randperm(classes, generator=torch.Generator().manual_seed(seed))
    permuted = fit(probs[..., order])
    torch.testing.assert_close(permuted.precision, result.precision, rtol=1e-4, atol=0)


def test_smoothing():
    smoothed = smooth(torch.tensor([1.0, 0, 0, 0], dtype=torch.float64), 0.1)
    torch.testing.assert_close(smoothed, torch.tensor([0.925, 0.025, 0.025, 0.025]).double())
    assert smooth(torch.tensor([1.0, 0.0]))[1].item() == pytest.approx(5e-5)
    with pytest.raises(ValueError, match=r"smoothing must lie in \[0, 1\], got 1.5"):
        smooth(torch.tensor([1.0, 0.0]), 1.5)


def nan_at(*index):
    probs = torch.full((2, 3, 4), 0.25)
    probs[index] = float("nan")
    return probs


@pytest.mark.parametrize(
    ("probs", "options", "error", "message"),
    [
        ([[0.5, 0.5]], {}, TypeError, r"probs must be a torch.Tensor, got list"),
        (torch.ones(2, 2).half(), {}, TypeError, r"float32 or float64, got torch.float16"),
        (torch.ones(2, 2).long(), {}, TypeError, r"float32 or float64, got torch.int64"),
        (torch.tensor([0.5, 0.5]), {}, ValueError, r"\[M, \.\.\., K\].*got \[2\] with 1 dim"),
        (torch.ones(3, 1), {}, ValueError, r"K >= 2 classes.*got K = 1"),
        (torch.ones(0, 2), {}, ValueError, r"at least one draw, got shape \[0, 2\]"),
        (nan_at(1, 2, 0), {}, ValueError, r"got nan at index \[1, 2, 0\]"),
        (torch.tensor([[0.5, 0.5], [1.5, -0.5]]), {}, ValueError, r"got -0.5 at index \[1, 1\]"),
        (torch.tensor([[0.5, torch.inf]] * 2), {}, ValueError, r"got inf at index \[0, 1\]"),
        (torch.tensor([[0.5, 0.5], [0.5, 0.6]]), {}, ValueError, r"sum to one.*1\.1.* index \[1\]"),
        (torch.tensor([[0.5, 0.5]]), {}, ValueError, r"one draw has no spread.*max_precision"),
        (torch.full((2, 2), 0.5), {"max_precision": 1}, ValueError, r"2\.0 > 1\.0"),
        (torch.full((2, 2), 0.5), {"min_precision": 0}, ValueError, r"min_precision.*got 0"),
        (torch.full((2, 2), 0.5), {"max_precision": torch.inf}, ValueError, r"finite, got inf"),
    ],
)
def test_bad_draws_are_refused(probs, options, error, message):
    with pytest.raises(error, match=message):
        fit(probs, **options)


@pytest.mark.parametrize(
    ("mean", "mean_log", "error", "message"),
    [
        (torch.ones(2), torch.ones(2).double(), TypeError, r"same dtype, got torch.float32 and"),
        (torch.ones(2).half(), torch.ones(2), TypeError, r"mean must be float32 or float64"),
        (torch.ones(3, 2), torch.ones(2, 2), ValueError, r"got \[3, 2\] and \[2, 2\]"),
        (torch.ones(3, 1), torch.ones(3, 1), ValueError, r"K >= 2"),
    ],
)
def test_bad_statistics_are_refused(mean, mean_log, error, message):
    with pytest.raises(error, match=message):
        fit_statistics(mean, mean_log)
