import pytest
import torch
import torch.nn.functional as F

from felbo.objectives._bound import Divergence, bound

SMOOTHING = 1e-2
WEIGHT = 0.7


def case(draws, items):
    generator = torch.Generator().manual_seed(draws)
    logits = 3 * torch.randn(draws, items, 4, generator=generator, dtype=torch.float64)
    slopes = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    return logits.requires_grad_(), slopes


def by_log(slopes):
    """A made-up divergence that is linear in l̄, so that its derivative is known."""

    def divergence(draws):
        value = (slopes * draws.log().mean(0)).sum()
        return Divergence(value / draws.shape[1], slopes)

    return divergence


def by_draw(slopes):
    """A made-up divergence that is quadratic in the draws."""

    def divergence(draws):
        value = (slopes * draws.square()).sum()
        return Divergence(value / draws.shape[1], None, 2 * slopes * draws)

    return divergence


def by_autograd(logits, labels, points, divergence):
    """The definition, left to autograd."""
    log_probs = logits.log_softmax(-1)
    batch = log_probs[:, : len(labels)].flatten(0, 1)
    nll = F.nll_loss(batch, labels.repeat(len(logits))) if len(labels) else torch.zeros(())
    probs = (1 - SMOOTHING) * log_probs[:, -points:].exp() + SMOOTHING / logits.shape[-1]
    kl = divergence(probs).value
    return nll + WEIGHT * kl, nll, kl


@pytest.mark.parametrize("draws", [1, 6])
# Batch and measurement points the same; points only in part labelled; apart; no labels at all.
@pytest.mark.parametrize(("items", "labelled"), [(5, 5), (5, 2), (8, 3), (5, 0)])
@pytest.mark.parametrize("made_up", [by_log, by_draw, lambda slopes: by_log(slopes[0, 0].item())])
def test_value_and_gradient_are_those_of_the_definition(draws, items, labelled, made_up):
    logits, slopes = case(draws, items)
    labels = torch.tensor([0, 3, 1, 2, 2])[:labelled]
    divergence = made_up(slopes)
    found = bound(logits, labels, 5, SMOOTHING, WEIGHT, divergence)
    expected = by_autograd(logits, labels, 5, divergence)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs.to(ours), rtol=1e-12, atol=1e-12)
    ours = torch.autograd.grad(2 * found.total, logits)[0]
    theirs = torch.autograd.grad(2 * expected[0], logits)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_only_the_total_has_a_gradient():
    logits, slopes = case(2, 5)
    found = bound(logits, torch.tensor([0]), 5, SMOOTHING, WEIGHT, by_log(slopes))
    assert found.total.requires_grad
    assert not found.nll.requires_grad
    assert not found.kl.requires_grad


def test_without_autograd_no_gradient_is_prepared(monkeypatch):
    logits, slopes = case(2, 5)
    divergence = by_log(slopes)
    expected = bound(logits, torch.tensor([0]), 5, SMOOTHING, WEIGHT, divergence)
    monkeypatch.delattr("felbo.objectives._bound.row_sums")
    with torch.no_grad():
        found = bound(logits, torch.tensor([0]), 5, SMOOTHING, WEIGHT, divergence)
    with pytest.raises(NameError):
        bound(logits, torch.tensor([0]), 5, SMOOTHING, WEIGHT, divergence)
    assert not found.total.requires_grad
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=0, atol=0)


def test_logits_far_apart_neither_overflow_nor_lose_the_gradient():
    logits = torch.tensor([[[900.0, -900.0, 0.0]]], requires_grad=True)
    slope = torch.ones(1, 3)
    found = bound(logits, torch.tensor([1]), 1, 1e-4, 1.0, by_log(slope))
    found.total.backward()
    assert found.nll.item() == 1800.0
    assert logits.grad.isfinite().all()
    assert logits.grad[0, 0, 1].item() == pytest.approx(-1.0)


@pytest.mark.parametrize("draws", [1, 6])
# Logits beyond the range of safe exponentials; few classes and many, few items and many.
@pytest.mark.parametrize("scale", [3.0, 40.0])
@pytest.mark.parametrize(("items", "classes"), [(5, 4), (5, 20), (3000, 4)])
def test_without_weight_it_is_the_cross_entropy(draws, scale, items, classes):
    generator = torch.Generator().manual_seed(draws)
    logits = scale * torch.randn(draws, items, classes, generator=generator, dtype=torch.float64)
    logits.requires_grad_()
    labels = torch.randint(0, classes, (items,), generator=generator)
    nothing = by_log(torch.zeros(classes, dtype=torch.float64))
    found = bound(logits, labels, items, SMOOTHING, 0.0, nothing).total
    expected = F.cross_entropy(logits.flatten(0, 1), labels.repeat(draws))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    ours = torch.autograd.grad(3 * found, logits)[0]
    theirs = torch.autograd.grad(3 * expected, logits)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("label", [-1, 4])
def test_a_label_that_is_no_class_is_named(label):
    logits, slopes = case(2, 5)
    with pytest.raises(ValueError, match="0 … 3"):
        bound(logits, torch.tensor([0, label]), 5, 0.1, 1.0, by_log(slopes))


def test_a_second_derivative_is_refused():
    logits, slopes = case(2, 5)
    total = bound(logits, torch.tensor([0]), 5, 0.1, 1.0, by_log(slopes)).total
    with pytest.raises(RuntimeError, match="differentiated once"):
        torch.autograd.grad(total, logits, create_graph=True)


def test_a_backward_pass_can_be_repeated():
    logits, slopes = case(2, 5)
    labels = torch.tensor([0, 3, 1, 2, 2])
    total = bound(logits, labels, 5, SMOOTHING, WEIGHT, by_log(slopes)).total
    first = torch.autograd.grad(2 * total, logits, retain_graph=True)[0]
    second = torch.autograd.grad(2 * total, logits)[0]
    assert torch.equal(first, second)


def test_gradients_of_repeated_passes_add_up():
    """A pass that starts from the loss gives its gradient away uncopied; it must stay intact."""
    logits, slopes = case(2, 5)
    labels = torch.tensor([0, 3, 1, 2, 2])
    total = bound(logits, labels, 5, SMOOTHING, WEIGHT, by_log(slopes)).total
    expected = torch.autograd.grad(2 * total, logits, retain_graph=True)[0] / 2
    for passes in (1.0, 2.0, 3.0):
        total.backward(retain_graph=True)
        torch.testing.assert_close(logits.grad, passes * expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("scale", [3.0, 40.0])
@pytest.mark.parametrize(("items", "classes"), [(5, 4), (3000, 4), (300, 40)])
def test_draws_that_lie_side_by_side(items, classes, scale):
    """As one matrix product for all members of an ensemble leaves them."""
    generator = torch.Generator().manual_seed(items)
    side_by_side = scale * torch.randn(items, 3, classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, classes, (items,), generator=generator)
    divergence = by_log(torch.randn(items, classes, generator=generator, dtype=torch.float64))
    results = []
    for logits in (side_by_side.transpose(0, 1), side_by_side.transpose(0, 1).contiguous()):
        logits.requires_grad_()
        loss = bound(logits, labels, items, SMOOTHING, WEIGHT, divergence)
        results.append((*loss, *torch.autograd.grad(loss.total, logits)))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-14)
