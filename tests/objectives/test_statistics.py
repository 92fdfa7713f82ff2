import pytest
import torch
import torch.nn.functional as F

from felbo.objectives._statistics import draw_statistics

SMOOTHING = 1e-2


def by_autograd(logits, labels):
    """The definition, left to autograd."""
    log_probs = logits.log_softmax(-1)
    probs = (1 - SMOOTHING) * log_probs.exp() + SMOOTHING / logits.shape[-1]
    batch = log_probs[:, : len(labels)]
    nll = F.nll_loss(batch.flatten(0, 1), labels.repeat(len(logits)))
    return nll, probs.mean(0), probs.log().mean(0)


def case(draws):
    generator = torch.Generator().manual_seed(draws)
    logits = 3 * torch.randn(draws, 7, 4, generator=generator, dtype=torch.float64)
    return logits.requires_grad_(), torch.tensor([0, 3, 1])


@pytest.mark.parametrize("draws", [1, 5])
def test_values_are_those_of_the_definition(draws):
    logits, labels = case(draws)
    for found, expected in zip(
        draw_statistics(logits, labels, SMOOTHING), by_autograd(logits, labels), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("draws", [1, 5])
@pytest.mark.parametrize("used", [(1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1)])
def test_gradient_is_that_of_the_definition(draws, used):
    logits, labels = case(draws)
    weights = [torch.randn_like(part.detach()) for part in by_autograd(logits, labels)]

    def gradient(statistics):
        parts = zip(statistics, weights, used, strict=True)
        return torch.autograd.grad(sum((s * w).sum() for s, w, u in parts if u), logits)[0]

    found = gradient(draw_statistics(logits, labels, SMOOTHING))
    torch.testing.assert_close(found, gradient(by_autograd(logits, labels)), rtol=1e-12, atol=1e-13)


def test_logits_far_apart_neither_overflow_nor_lose_the_gradient():
    logits = torch.tensor([[[900.0, -900.0, 0.0]]], requires_grad=True)
    nll, _, mean_log = draw_statistics(logits, torch.tensor([1]), 1e-4)
    (nll + mean_log.sum()).backward()
    assert nll.item() == 1800.0
    assert logits.grad.isfinite().all()
    assert logits.grad[0, 0, 1].item() == pytest.approx(-1.0)
