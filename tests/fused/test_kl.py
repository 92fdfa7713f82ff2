"""The fused KL against the plain one over hostile inputs, and both against 40 digits."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from felbo import fused
from felbo.objectives import function_space_kl as plain

from .. import oracle

# Absolute, or relative to the size of the value where that is above 1.
VALUE = 1e-4
# Relative to the norm at each point. What is left of an error of 3e-5 in the precision grows where
# the pulls of data and prior nearly cancel.
GRADIENT = 1e-3


def value_and_gradient(kl, logits, *arguments):
    logits = logits.clone().requires_grad_()
    values = kl(logits, *arguments)
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    assert values.dtype == logits.dtype
    return values.detach().double(), gradient.double()


def assert_agree(found, expected, beta, max_precision):
    (value, gradient), (exact, exact_gradient) = found, expected
    assert ((value - exact).abs() <= VALUE * exact.abs().clamp(min=1.0)).all()
    error, size = (
        part.transpose(0, 1).flatten(1).norm(dim=1)
        for part in (gradient - exact_gradient, exact_gradient)
    )
    # float64 rounds terms as large as α and β, which cancel where draws agree or are saturated.
    rounding = 4e-15 * (max_precision + beta.sum(-1))
    assert (error <= GRADIENT * size + rounding).all()


def powers(low, high):
    """Numbers from 10^low to 10^high."""
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


@st.composite
def hostile(draw, max_classes=1000):
    """Logits ``[M, 4, K]``, β and the other arguments."""
    classes = draw(st.integers(2, 5) | powers(0.5, 3).map(int)) % (max_classes + 1)
    classes, draws = max(classes, 2), draw(st.integers(1, 10))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))

    def randn(*shape):
        return torch.randn(*shape, 4, classes, generator=generator, dtype=torch.float64)

    centre = randn(1)
    if draw(st.booleans()):  # one class takes all, in every draw the same or another one
        centre = F.one_hot(randn(draw(st.sampled_from([1, draws]))).argmax(-1), classes).double()
    apart = draw(st.just(0.0) | powers(-8, 1) | powers(1, 3))
    logits = draw(powers(-1, 3)) * centre + apart * randn(draws)
    beta = draw(powers(-3, 4)) * torch.ones(classes, dtype=torch.float64)
    if draw(st.booleans()):  # a prior of its own for every point and class
        beta = 10 ** (1.5 * randn()).clamp(-3, 4)
    logits = logits.to(draw(st.sampled_from([torch.float32, torch.float64])))
    return logits, beta, max(draw(powers(1, 9)), float(classes)), draw(powers(-6, -2))


@settings(max_examples=200, deadline=None)
@given(hostile())
def test_fused_and_plain_agree(case):
    logits, beta, *rest = case
    found = value_and_gradient(fused.function_space_kl, logits, beta, *rest)
    expected = value_and_gradient(plain, logits.double(), beta, *rest)
    assert_agree(found, expected, beta, rest[0])


@settings(max_examples=40, deadline=None)
@given(hostile(max_classes=30))
def test_plain_is_exact(case):
    logits, beta, *rest = case
    found = value_and_gradient(plain, logits, beta, *rest)
    assert_agree(found, oracle.kl(*case), beta, rest[0])


def correlated(draws, items=3, classes=4, dtype=torch.float64):
    shared = 2 * torch.randn(1, items, classes, dtype=dtype)
    return shared + torch.linspace(0.0, 2.0, items)[:, None] * torch.randn(draws, items, classes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("draws", [1, 2, 10])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_draws_that_nearly_agree_and_a_billion_data(classes, draws, dtype):
    generator = torch.Generator().manual_seed(classes)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    # Those of precision 1e9 differ by 3e-5.
    apart = 10 ** torch.linspace(-7, 0, 400, dtype=torch.float64)[:, None]
    scale = torch.tensor([0.0, 1.0, 10.0, 30.0], dtype=torch.float64).repeat(100)[:, None]
    logits = (scale * normal(1, 400, classes) + apart * normal(draws, 400, classes)).to(dtype)
    for beta in (1e-3, 1.0, 1e4):
        arguments = torch.full((classes,), beta, dtype=torch.float64), 1e9
        value, gradient = value_and_gradient(fused.function_space_kl, logits, *arguments)
        expected = value_and_gradient(plain, logits.double(), *arguments)
        assert_agree((value, gradient), expected, *arguments)
        # In nats, but for the rounding of a value in float32.
        assert ((value - expected[0]).abs() <= 1e-3 + 1e-7 * expected[0].abs()).all()


@pytest.mark.parametrize("draws", [1, 2, 5])
def test_second_derivatives_are_those_of_the_plain_form(draws):
    logits, beta = correlated(draws), torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=torch.float64)
    hessians = [
        torch.autograd.functional.hessian(lambda l, kl=kl: kl(l, beta, 50.0, 1e-2).sum(), logits)
        for kl in (fused.function_space_kl, plain)
    ]
    assert hessians[1].abs().max() > 1
    torch.testing.assert_close(*hessians, rtol=1e-4, atol=1e-9)


def test_gradient_of_one_draw_does_not_depend_on_the_number_of_data():
    """∂KL/∂log f = −β alone: nothing as large as N is rounded."""
    logits, beta = correlated(1, dtype=torch.float32), torch.tensor([0.001, 0.002, 0.001, 0.001])
    gradients = [
        value_and_gradient(fused.function_space_kl, logits, beta, cap)[1] for cap in (10.0, 1e9)
    ]
    assert torch.equal(*gradients)


@pytest.mark.parametrize("draws", [1, 3])
@pytest.mark.parametrize("own", [False, True])
def test_points_are_cut_into_blocks(draws, own, monkeypatch):
    logits = correlated(draws, items=7)
    beta = torch.rand(7, 4, dtype=torch.float64) + 0.1 if own else torch.ones(4)
    whole = value_and_gradient(fused.function_space_kl, logits, beta, 50.0)
    monkeypatch.setattr("felbo.fused.draws._BLOCK", 3 * draws * 4)
    for part, expected in zip(
        value_and_gradient(fused.function_space_kl, logits, beta, 50.0), whole, strict=True
    ):
        torch.testing.assert_close(part, expected)


def test_no_gradient_is_prepared_where_none_is_wanted(monkeypatch):
    logits = correlated(3)
    expected = fused.function_space_kl(logits.requires_grad_(), torch.ones(4), 50.0)
    monkeypatch.delattr("felbo.fused.draws.Divergence.gradient")
    found = fused.function_space_kl(logits.detach(), torch.ones(4), 50.0)
    assert torch.equal(found, expected.detach())


def test_a_backward_pass_can_be_repeated_and_scaled():
    logits = correlated(3).requires_grad_()
    total = fused.function_space_kl(logits, torch.ones(4), 50.0).sum()
    (first,) = torch.autograd.grad(total, logits, retain_graph=True)
    (2 * total).backward(retain_graph=True)
    total.backward()
    torch.testing.assert_close(logits.grad, 3 * first)


def test_what_has_no_closed_form_is_refused():
    logits = correlated(2)
    with pytest.raises(ValueError, match=r"gradient='total'.*implementation='plain'"):
        fused.function_space_kl(logits, torch.ones(4), 50.0, gradient="total")
    with pytest.raises(ValueError, match=r"smoothing > 0.*smoothing=0"):
        fused.function_space_kl(logits, torch.ones(4), 50.0, 0.0)
    for kl in (plain, fused.function_space_kl):
        with pytest.raises(ValueError, match=r"got 4\.0 > 3\.0"):
            kl(logits, torch.ones(4), 3.0)
