"""The fit against an independent maximiser, on ordinary and on hostile draws; its derivatives."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from felbo.dirichlet import fit, fit_spread, smooth, spread

from ..oracle import maximiser

DTYPES = [torch.float32, torch.float64]


def softmax_draws(classes, draws, scale, noise, dtype=torch.float64, items=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centre = scale * torch.randn(1, items, classes, generator=generator, dtype=torch.float64)
    jitter = noise * torch.randn(draws, items, classes, generator=generator, dtype=torch.float64)
    return torch.softmax((centre + jitter).to(dtype), -1)


def assert_fitted(probs, lower, upper, **options):
    result = fit(probs, **options)
    flat = probs.reshape(len(probs), -1, probs.shape[-1])
    expected = [maximiser(flat[:, i], lower, upper) for i in range(flat.shape[1])]
    np.testing.assert_allclose(result.precision.flatten().double(), expected, rtol=3e-5)
    assert result.iterations.max() <= 8
    assert result.converged.all()
    assert result.concentration.dtype == result.precision.dtype == probs.dtype
    torch.testing.assert_close(result.mean, probs.double().mean(0).to(probs.dtype))
    torch.testing.assert_close(result.concentration, result.precision[..., None] * result.mean)
    return result


# --- values -------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    st.integers(2, 30) | st.sampled_from([100, 1000]),
    st.integers(2, 20) | st.just(100),
    st.floats(0.0, 60.0),
    st.just(0.0) | st.floats(-8.0, 1.5).map(lambda e: 10.0**e),
    st.sampled_from(DTYPES),
    st.integers(0, 10**6),
)
def test_any_softmax_draws(classes, draws, scale, noise, dtype, seed):
    probs = softmax_draws(classes, draws, scale, noise, dtype, seed=seed)
    result = assert_fitted(probs, classes, 1e8)
    assert_fitted(smooth(probs), classes, 5e4, max_precision=5e4)
    order = torch.randperm(classes, generator=torch.Generator().manual_seed(seed))
    permuted = fit(probs[..., order])
    torch.testing.assert_close(permuted.precision, result.precision, rtol=1e-4, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("classes", [2, 10, 300])
@pytest.mark.parametrize("concentration", [0.01, 1.0, 100.0, 1e6])
def test_dirichlet_draws_and_a_wide_bracket(classes, dtype, concentration):
    alpha = concentration * torch.rand(10, classes, dtype=torch.float64)
    probs = torch.distributions.Dirichlet(alpha).sample((7,)).to(dtype)
    assert_fitted(probs, 1e-3, 1e12, min_precision=1e-3, max_precision=1e12)


def test_known_precision_is_recovered_from_many_draws():
    alpha = torch.tensor([[3.0, 1.0, 6.0], [20.0, 50.0, 30.0], [0.2, 0.5, 0.3]]).double()
    probs = torch.distributions.Dirichlet(alpha).sample((20000,))
    result = fit(probs, min_precision=0.1)
    # Standard error of the precision: about sqrt(2 / (M (K - 1))) relative, here 0.7 %.
    torch.testing.assert_close(result.precision, alpha.sum(-1), rtol=0.03, atol=0)


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


def test_zeros_and_tiny_probabilities_are_told_apart():
    ruled_out = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.499, 0.001]])
    assert fit(ruled_out).precision.item() == 3
    tiny = torch.tensor([[1.0, 1e-30], [0.5, 0.5], [1e-200, 1.0]], dtype=torch.float64)
    assert assert_fitted(tiny, 1e-6, 1e8, min_precision=1e-6).precision > 1e-3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("draws", [1, 2, 3, 10, 99])
def test_equal_draws_give_the_upper_end_without_an_iteration(draws, dtype):
    probs = softmax_draws(10, 1, 5.0, 0.0, dtype, items=50).expand(draws, -1, -1)
    result = fit(probs, max_precision=1e15)
    assert result.precision.eq(torch.tensor(1e15, dtype=dtype)).all()
    assert result.iterations.eq(0).all()
    assert result.converged.all()


def test_batch_shape_and_neighbours_do_not_matter():
    parts = [softmax_draws(4, 5, s, n, items=2) for s in (1, 20) for n in (0.0, 0.1, 5)]
    probs = torch.cat(parts, 1)
    whole = fit(probs)
    assert torch.equal(fit(probs.reshape(5, 3, 2, 2, 4)).precision.flatten(), whole.precision)
    for i in range(12):
        alone = fit(probs[:, i])
        assert alone.precision.shape == ()
        torch.testing.assert_close(alone.precision, whole.precision[i], rtol=1e-6, atol=0)
        assert alone.iterations == whole.iterations[i]
    nothing = fit(torch.zeros(3, 0, 4))
    assert nothing.concentration.shape == (0, 4)
    assert nothing.precision.shape == nothing.iterations.shape == (0,)


def test_smoothing():
    smoothed = smooth(torch.tensor([1.0, 0, 0, 0], dtype=torch.float64), 0.1)
    torch.testing.assert_close(smoothed, torch.tensor([0.925, 0.025, 0.025, 0.025]).double())
    assert smooth(torch.tensor([1.0, 0.0]))[1].item() == pytest.approx(5e-5)
    with pytest.raises(ValueError, match=r"smoothing must lie in \[0, 1\], got 1.5"):
        smooth(torch.tensor([1.0, 0.0]), 1.5)


# --- spread -------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [1.0, 1e-4, 1e-7])
def test_spread_keeps_its_digits_when_draws_nearly_agree(noise):
    """To second order D is half the mean of Σ ā (log f − mean log f)²."""
    logits = noise * torch.randn(8, 5, 3, dtype=torch.float64)
    probs = logits.softmax(-1)
    found = spread(probs)
    mean, logs = probs.mean(0), probs.log()
    if noise == 1.0:
        expected = (mean * (mean.log() - logs.mean(0))).sum(-1)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    else:
        # The logarithms of nearly uniform draws, without the rounding of the draws themselves.
        logs = logits - logits.mean(-1, keepdim=True)
        expected = (mean * logs.var(0, correction=0)).sum(-1) / 2
        torch.testing.assert_close(found, expected, rtol=3 * noise + 3e-16 / noise, atol=0)


def test_spread_at_the_border():
    draws = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.5, 0.5]]])
    assert spread(draws).tolist() == [0.0, torch.inf]
    assert spread(draws).dtype == torch.float64


@pytest.mark.parametrize("dtype", DTYPES)
def test_mean_and_spread_give_the_same_fit(dtype):
    probs = softmax_draws(10, 8, 3.0, 0.7, dtype, items=200)
    expected = fit(probs, max_precision=1e5)
    found = fit_spread(probs.double().mean(0).to(dtype), spread(probs), max_precision=1e5)
    for ours, theirs in zip(found[:3], expected[:3], strict=True):
        torch.testing.assert_close(ours, theirs)
    assert not found.concentration.requires_grad


def test_mean_and_spread_with_a_bracket_of_their_own():
    probs = softmax_draws(4, 8, 1.0, 2.0, torch.float64, items=50)
    free = fit_spread(probs.mean(0), spread(probs), min_precision=1e-3).precision
    assert free.amin() < 3.0 < free.amax()
    bounded = fit_spread(probs.mean(0), spread(probs), min_precision=3.0).precision
    torch.testing.assert_close(bounded, free.clamp(min=3.0), rtol=1e-4, atol=0.0)


def test_spread_below_zero_and_nan():
    mean = torch.tensor([0.3, 0.7]).expand(3, 2)
    found = fit_spread(mean, torch.tensor([-1e-9, 0.0, torch.nan]), max_precision=100)
    assert found.precision[:2].tolist() == [100, 100]
    assert found.precision[2].isnan()
    assert found.converged.tolist() == [True, True, False]


# --- derivatives --------------------------------------------------------------------------------


@pytest.mark.parametrize(("classes", "noise"), [(2, 0.3), (3, 0.8), (10, 0.05)])
def test_first_and_second_derivatives_through_the_draws(classes, noise):
    def logs(x):
        result = fit(x.softmax(-1), min_precision=0.01, differentiable=True)
        return result.concentration.log(), result.precision.log()

    x = softmax_draws(classes, 4, 1.0, noise, items=2).log().requires_grad_()
    assert torch.autograd.gradcheck(logs, (x,), eps=1e-4, atol=1e-5, rtol=1e-4)
    assert torch.autograd.gradgradcheck(logs, (x,), eps=1e-5, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("noise", [1e-3, 1.0])
def test_derivative_is_that_of_the_maximiser(noise):
    probs = softmax_draws(5, 6, 1.0, noise, items=1).requires_grad_()
    fit(probs, min_precision=0.01, differentiable=True).precision.backward()
    with torch.no_grad():
        direction = probs * torch.randn_like(probs)
        direction -= probs * direction.sum(-1, keepdim=True)  # stays on the simplex
        step = 1e-3 * noise
        up, down = (maximiser((probs + s * direction)[:, 0], 0.01, 1e12) for s in (step, -step))
        found = (probs.grad * direction).sum().item()
    assert found == pytest.approx((up - down) / (2 * step), rel=1e-4)


def test_no_derivative_of_the_precision_at_the_ends_of_the_bracket():
    one_hot = torch.eye(3)[:2]
    equal = torch.tensor([[0.2, 0.3, 0.5]] * 2)
    lonely = torch.tensor([[1.0, 0.0, 0.0]] * 2)
    probs = torch.stack([one_hot, equal, lonely], 1).requires_grad_()
    result = fit(probs, differentiable=True)
    assert result.precision.tolist() == [3, 1e8, 1e8]
    (gradient,) = torch.autograd.grad(result.precision.sum(), probs, retain_graph=True)
    assert gradient.eq(0).all()
    # The concentration still moves with the mean: its gradient is z / M.
    (gradient,) = torch.autograd.grad(result.concentration.sum(), probs)
    expected = torch.tensor([1.5, 5e7, 5e7])[None, :, None].expand(2, 3, 3)
    torch.testing.assert_close(gradient, expected)
    single = torch.tensor([[0.25, 0.75]], requires_grad=True)
    fit(single, max_precision=1000, differentiable=True).concentration[0].backward()
    assert single.grad.tolist() == [[1000, 0]]


def test_class_that_dropped_out_gets_a_finite_derivative():
    probs = torch.tensor([[0.3, 0.7, 0.0], [0.4, 0.6, 0.0]], dtype=torch.float64)
    wide, narrow = probs.clone().requires_grad_(), probs[:, :2].clone().requires_grad_()
    fit(wide, differentiable=True).precision.backward()
    fit(narrow, min_precision=3, differentiable=True).precision.backward()
    torch.testing.assert_close(wide.grad[:, :2], narrow.grad)
    assert wide.grad[:, 2].eq(0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_constant_unless_asked_with_the_same_values(dtype):
    probs = softmax_draws(3, 4, 1.0, 0.8, dtype).requires_grad_()
    constant, graph = fit(probs), fit(probs, differentiable=True)
    assert not any(value.requires_grad for value in constant)
    assert graph.precision.requires_grad
    torch.testing.assert_close(graph.precision, constant.precision, rtol=1e-4, atol=0)
    torch.testing.assert_close(graph.concentration, constant.concentration, rtol=1e-4, atol=0)
