import math

import numpy as np
import pytest
import torch

from felbo import MAP, Ensemble, MCDropout, NegativeLogLikelihood
from felbo.networks import mlp
from felbo.objectives.likelihood import expected_nll


def test_mean_over_draws_and_items_of_minus_log_of_the_label():
    logits = np.random.default_rng(0).normal(size=(4, 5, 3))
    labels = np.array([0, 2, 1, 1, 0])
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    terms = [-math.log(probs[m, b, labels[b]]) for m in range(4) for b in range(5)]
    found = expected_nll(torch.as_tensor(logits), torch.as_tensor(labels))
    assert found.item() == pytest.approx(sum(terms) / 20, abs=1e-12)


def test_the_loss_is_the_expected_nll_and_nothing_else():
    model = Ensemble(lambda: mlp(4, (5,), 3), members=3)
    x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2], dtype=torch.int32)
    loss = NegativeLogLikelihood()(model, x, y)
    expected = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.long().repeat(3))
    torch.testing.assert_close(loss.total, expected)
    torch.testing.assert_close(loss.nll, expected)
    assert loss.kl.item() == 0
    assert loss.total.requires_grad
    loss.kl.add_(1.0)
    assert NegativeLogLikelihood()(model, x, y).kl.item() == 0


def test_num_samples_reaches_the_model():
    model, x, y = MCDropout(mlp(4, (5,), 3)), torch.randn(6, 4), torch.zeros(6, dtype=torch.int64)
    loss = NegativeLogLikelihood(num_samples=4)
    torch.manual_seed(1)
    found = loss(model, x, y).total
    torch.manual_seed(1)
    torch.testing.assert_close(found, expected_nll(model(x, 4), y))


# −100 is what F.cross_entropy would silently leave out.
@pytest.mark.parametrize("label", [3, -1, -100])
def test_labels_are_checked(label):
    with pytest.raises(ValueError, match="0 … 2"):
        NegativeLogLikelihood()(MAP(mlp(4, (5,), 3)), torch.zeros(2, 4), torch.tensor([0, label]))


def test_more_rows_than_inputs_are_refused():
    model = MCDropout(mlp(4, (5,), 3))
    model.register_forward_hook(lambda _model, _inputs, logits: torch.cat([logits, logits], 1))
    with pytest.raises(ValueError, match=r"logits of 2 items.*got \[1, 4, 3\]"):
        NegativeLogLikelihood()(model, torch.zeros(2, 4), torch.tensor([0, 1]))
