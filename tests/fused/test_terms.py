"""Both terms from one softmax, against torch's cross-entropy and the plain KL."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from felbo import fused
from felbo.objectives import function_space_kl

from .test_kl import assert_agree, correlated, hostile


def plain(logits, labels, *arguments):
    nll = F.cross_entropy(logits.flatten(0, 1), labels.repeat(len(logits)))
    return nll, function_space_kl(logits, *arguments).mean()


def gradients(terms, logits):
    """Gradients of both terms, which can be asked for one by one."""
    return [torch.autograd.grad(term, logits, retain_graph=True)[0].double() for term in terms]


@settings(max_examples=100, deadline=None)
@given(hostile(), st.integers(0, 10**6))
def test_fused_and_plain_agree(case, seed):
    logits, beta, *rest = case
    # One point, so that a mean over points hides nothing.
    logits, beta = logits[:, :1], beta if beta.dim() == 1 else beta[:1]
    labels = torch.randint(0, logits.shape[-1], (1,), generator=torch.manual_seed(seed))
    single, double = logits.clone().requires_grad_(), logits.double().requires_grad_()
    found = fused.nll_and_kl(single, labels, beta, *rest)
    expected = plain(double, labels, beta, *rest)
    assert found[0].dtype == found[1].dtype == logits.dtype
    torch.testing.assert_close(found[0].double(), expected[0], rtol=1e-6, atol=1e-6)
    (by_nll, by_kl), (exact_by_nll, exact_by_kl) = (
        gradients(found, single),
        gradients(expected, double),
    )
    torch.testing.assert_close(by_nll, exact_by_nll, rtol=1e-5, atol=1e-14)
    kl, exact = ((terms[1].detach().double()[None]) for terms in (found, expected))
    assert_agree((kl, by_kl), (exact, exact_by_kl), beta, rest[0])


@pytest.mark.parametrize("gap", [680.0, 720.0, 743.0, 800.0, 3e4])
def test_labels_whose_probability_underflows(gap):
    logits = torch.tensor([[[0.0, gap, 1.0], [0.0, 1.0, 2.0]]])
    found = fused.nll_and_kl(logits, torch.tensor([0, 1]), torch.ones(3), 100.0)
    torch.testing.assert_close(found, plain(logits, torch.tensor([0, 1]), torch.ones(3), 100.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("draws", "classes"), [(1, 4), (3, 4), (1, 20), (3, 20)])
@pytest.mark.parametrize("own", [False, True])
def test_points_are_cut_into_blocks(draws, classes, own, dtype, monkeypatch):
    logits = correlated(draws, items=7, classes=classes).to(dtype).requires_grad_()
    beta = torch.rand(7, classes, dtype=torch.float64) + 0.1 if own else torch.ones(classes)
    arguments = torch.arange(7) % classes, beta, 50.0
    results = []
    for block in (3 * draws * classes / torch.get_num_threads(), 1e6):
        monkeypatch.setattr("felbo.fused.draws._BLOCK", block)
        terms = fused.nll_and_kl(logits, *arguments)
        results.append([*terms, *gradients(terms, logits)])
    torch.testing.assert_close(*results)
    expected = plain(logits, *arguments)
    tolerance = {"rtol": 1e-3, "atol": 1e-5}
    torch.testing.assert_close(results[0], [*expected, *gradients(expected, logits)], **tolerance)


@pytest.mark.parametrize("draws", [1, 3])
def test_second_derivatives_are_those_of_the_plain_form(draws):
    logits, beta = correlated(draws), torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=torch.float64)
    arguments = torch.tensor([0, 3, 1]), beta, 50.0, 1e-2
    hessians = [
        torch.autograd.functional.hessian(
            lambda logits, terms=terms: 2 * sum(terms(logits, *arguments)), logits
        )
        for terms in (fused.nll_and_kl, plain)
    ]
    torch.testing.assert_close(*hessians, rtol=1e-4, atol=1e-9)


def test_no_gradient_is_prepared_where_none_is_wanted(monkeypatch):
    logits, arguments = correlated(3), (torch.tensor([0, 3, 1]), torch.ones(4), 50.0)
    expected = fused.nll_and_kl(logits.clone().requires_grad_(), *arguments)
    monkeypatch.delattr("felbo.fused.draws.Divergence.gradient")
    torch.testing.assert_close(fused.nll_and_kl(logits, *arguments), expected, rtol=0, atol=0)


def test_what_has_no_closed_form_is_refused():
    arguments = correlated(2), torch.tensor([0, 3, 1]), torch.ones(4)
    with pytest.raises(ValueError, match=r"gradient='total'.*implementation='plain'"):
        fused.nll_and_kl(*arguments, 50.0, gradient="total")
    with pytest.raises(ValueError, match=r"smoothing > 0.*smoothing=0"):
        fused.nll_and_kl(*arguments, 50.0, 0.0)
