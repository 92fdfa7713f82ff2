"""The gradient of the fit against finite differences."""

import pytest
import torch

from felbo.dirichlet import fit, fit_statistics


def logits(draws=4, items=3, classes=3, noise=0.8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centre = torch.randn(1, items, classes, generator=generator, dtype=torch.float64)
    jitter = torch.randn(draws, items, classes, generator=generator, dtype=torch.float64)
    return centre + noise * jitter


@pytest.mark.parametrize(("classes", "noise"), [(2, 0.3), (3, 0.8), (10, 0.05), (5, 1.0)])
def test_gradcheck_through_draws(classes, noise):
    def log_concentration(x):
        result = fit(x.softmax(-1), min_precision=0.01, differentiable=True)
        return result.concentration.log(), result.precision.log()

    x = logits(classes=classes, noise=noise).requires_grad_()
    assert torch.autograd.gradcheck(log_concentration, (x,), eps=1e-4, atol=1e-5, rtol=1e-4)


def test_gradcheck_through_statistics():
    probs = logits().softmax(-1)

    def log_precision(mean, mean_log):
        return fit_statistics(mean, mean_log, min_precision=0.01, differentiable=True)[1].log()

    statistics = (probs.mean(0).requires_grad_(), probs.log().mean(0).requires_grad_())
    assert torch.autograd.gradcheck(log_precision, statistics, eps=1e-5, atol=1e-5, rtol=1e-4)


def test_wider_spread_means_less_precision():
    probs = torch.tensor([[0.6, 0.4], [0.4, 0.6]], dtype=torch.float64, requires_grad=True)
    fit(probs, min_precision=0.1, differentiable=True).precision.backward()
    moved_apart = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)
    step = 1e-4
    values = [
        fit((probs + s * moved_apart).detach(), min_precision=0.1).precision.item()
        for s in (step, -step)
    ]
    slope = (probs.grad * moved_apart).sum().item()
    assert slope < 0
    assert slope == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4)


def test_no_gradient_of_the_precision_at_the_ends_of_the_bracket():
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


def test_class_that_dropped_out_gets_a_finite_gradient():
    probs = torch.tensor([[0.3, 0.7, 0.0], [0.4, 0.6, 0.0]], dtype=torch.float64)
    wide, narrow = probs.clone().requires_grad_(), probs[:, :2].clone().requires_grad_()
    fit(wide, differentiable=True).precision.backward()
    fit(narrow, min_precision=3, differentiable=True).precision.backward()
    torch.testing.assert_close(wide.grad[:, :2], narrow.grad)
    assert wide.grad[:, 2].eq(0).all()


def test_constant_unless_asked():
    probs = logits().softmax(-1).requires_grad_()
    assert not any(value.requires_grad for value in fit(probs))
    statistics = fit_statistics(probs.mean(0), probs.log().mean(0))
    assert not any(value.requires_grad for value in statistics)


def test_values_do_not_depend_on_the_gradient():
    probs = logits().softmax(-1).float()
    plain, graph = fit(probs), fit(probs.requires_grad_(), differentiable=True)
    assert torch.equal(plain.precision, graph.precision)
    torch.testing.assert_close(plain.concentration, graph.concentration)
    assert graph.precision.requires_grad
