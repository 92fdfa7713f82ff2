"""The bound from one softmax, against torch's cross-entropy and the plain KL."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from felbo import fused
from felbo.objectives import function_space_kl

from .test_kl import GRADIENT, assert_agree, correlated, hostile


def plain(logits, labels, beta, max_precision, kl_weight, smoothing=1e-4):
    nll = F.cross_entropy(logits.flatten(0, 1), labels.repeat(len(logits)))
    kl = function_space_kl(logits, beta, max_precision, smoothing).mean()
    return nll + kl_weight * kl, nll, kl


def gradients(results, logits):
    """Gradients of the sum and of both terms, which can be asked for one by one."""
    return [torch.autograd.grad(each, logits, retain_graph=True)[0].double() for each in results]


@settings(max_examples=100, deadline=None)
@given(hostile(), st.sampled_from([0.0, 1 / 256, 1.0, 30.0]), st.integers(0, 10**6))
def test_fused_and_plain_agree(case, weight, seed):
    logits, beta, cap, smoothing = case
    # One point, so that a mean over points hides nothing.
    logits, beta = logits[:, :1], beta if beta.dim() == 1 else beta[:1]
    labels = torch.randint(0, logits.shape[-1], (1,), generator=torch.manual_seed(seed))
    single, double = logits.clone().requires_grad_(), logits.double().requires_grad_()
    found = fused.bound(single, labels, beta, cap, weight, smoothing)
    expected = plain(double, labels, beta, cap, weight, smoothing)
    assert {each.dtype for each in found} == {logits.dtype}
    torch.testing.assert_close(found.nll.double(), expected[1], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found.total, torch.add(found.nll, found.kl, alpha=weight))
    by_total, by_nll, by_kl = gradients(found, single)
    exact_by_total, exact_by_nll, exact_by_kl = gradients(expected, double)
    torch.testing.assert_close(by_nll, exact_by_nll, rtol=1e-5, atol=1e-14)
    kl, exact = found.kl.detach().double()[None], expected[2].detach()[None]
    assert_agree((kl, by_kl), (exact, exact_by_kl), beta, cap)
    # The gradient of the sum, which is computed beforehand, is as good as those of the terms.
    allowed = 1e-5 * exact_by_nll.norm() + weight * (
        GRADIENT * exact_by_kl.norm() + 4e-15 * (cap + beta.sum())
    )
    assert (by_total - exact_by_total).norm() <= allowed + 1e-14


@pytest.mark.parametrize("gap", [680.0, 720.0, 743.0, 800.0, 3e4])
def test_labels_whose_probability_underflows(gap):
    logits = torch.tensor([[[0.0, gap, 1.0], [0.0, 1.0, 2.0]]])
    arguments = torch.tensor([0, 1]), torch.ones(3), 100.0, 0.5
    torch.testing.assert_close(tuple(fused.bound(logits, *arguments)), plain(logits, *arguments))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("draws", "classes"), [(1, 4), (3, 4), (1, 20), (3, 20)])
@pytest.mark.parametrize("own", [False, True])
def test_points_are_cut_into_blocks(draws, classes, own, dtype, monkeypatch):
    logits = correlated(draws, items=7, classes=classes).to(dtype).requires_grad_()
    beta = torch.rand(7, classes, dtype=torch.float64) + 0.1 if own else torch.ones(classes)
    arguments = torch.arange(7) % classes, beta, 50.0, 0.5
    results = []
    for block in (3 * draws * classes / torch.get_num_threads(), 1e6):
        monkeypatch.setattr("felbo.fused.draws._BLOCK", block)
        found = fused.bound(logits, *arguments)
        results.append([*found, *gradients(found, logits)])
    torch.testing.assert_close(*results)
    expected = plain(logits, *arguments)
    tolerance = {"rtol": 1e-3, "atol": 1e-5}
    torch.testing.assert_close(results[0], [*expected, *gradients(expected, logits)], **tolerance)


def test_a_backward_pass_can_be_repeated_scaled_and_combined():
    logits = correlated(3).requires_grad_()
    total, nll, kl = fused.bound(logits, torch.tensor([0, 3, 1]), torch.ones(4), 50.0, 0.5)
    by_total, by_nll, by_kl = gradients((total, nll, kl), logits)
    (2 * total + nll - 3 * kl).backward(retain_graph=True)
    total.backward()
    torch.testing.assert_close(logits.grad, 3 * by_total + by_nll - 3 * by_kl)


@pytest.mark.parametrize("draws", [1, 3])
def test_second_derivatives_are_those_of_the_plain_form(draws):
    logits, beta = correlated(draws), torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=torch.float64)
    arguments = torch.tensor([0, 3, 1]), beta, 50.0, 0.5, 1e-2
    hessians = [
        torch.autograd.functional.hessian(
            lambda logits, bound=bound: 2 * sum(bound(logits, *arguments)), logits
        )
        for bound in (fused.bound, plain)
    ]
    torch.testing.assert_close(*hessians, rtol=1e-4, atol=1e-9)


def test_no_gradient_is_prepared_where_none_is_wanted(monkeypatch):
    logits, arguments = correlated(3), (torch.tensor([0, 3, 1]), torch.ones(4), 50.0, 0.5)
    expected = fused.bound(logits.clone().requires_grad_(), *arguments)
    monkeypatch.delattr("felbo.fused.draws.Divergence.gradient")
    torch.testing.assert_close(fused.bound(logits, *arguments), expected, rtol=0, atol=0)


def test_what_has_no_closed_form_is_refused():
    arguments = correlated(2), torch.tensor([0, 3, 1]), torch.ones(4)
    with pytest.raises(ValueError, match=r"gradient='total'.*implementation='plain'"):
        fused.bound(*arguments, 50.0, 0.5, gradient="total")
    with pytest.raises(ValueError, match=r"smoothing > 0.*smoothing=0"):
        fused.bound(*arguments, 50.0, 0.5, 0.0)
