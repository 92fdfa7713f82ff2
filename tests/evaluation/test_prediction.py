"""The lazy Dirichlet equals an eager fit, and the reductions lose nothing."""

import math
import pickle

import pytest
import torch

from felbo import dirichlet
from felbo.evaluation.prediction import Prediction, Spread, summarise


def draws(noise, members=10, items=200, classes=10, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(items, classes, generator=generator)
    return (logits + noise * torch.randn(members, items, classes, generator=generator)).softmax(-1)


def lazily(probs, smoothing=1e-4, cap=1e6):
    mean, spread = summarise(probs.clone(), smoothing)
    return Prediction(mean, Spread(spread, smoothing, cap))


@pytest.mark.parametrize("noise", [1.0, 0.1, 0.01, 0.003])
def test_lazy_fit_equals_eager_fit_in_float32(noise):
    probs = draws(noise)
    eager = dirichlet.fit(dirichlet.smooth(probs), max_precision=1e8)
    lazy = lazily(probs, cap=1e8)
    # Smoothing rounds the draws to float32, which counts the more the closer they are.
    torch.testing.assert_close(lazy.precision, eager.precision, rtol=1e-3, atol=0)
    ratio = lazy.concentration / lazy.precision.unsqueeze(-1)
    torch.testing.assert_close(ratio, eager.mean, rtol=1e-6, atol=0)


@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-3])
def test_lazy_fit_equals_eager_fit_in_float64(noise):
    probs = draws(noise).double()
    eager = dirichlet.fit(dirichlet.smooth(probs), max_precision=1e8)
    lazy = lazily(probs, cap=1e8)
    torch.testing.assert_close(lazy.precision, eager.precision, rtol=1e-5, atol=0)


@pytest.mark.parametrize("smoothing", [0.0, 1e-4])
def test_corners_of_the_simplex(smoothing):
    agreeing = torch.eye(3).expand(4, 3, 3)
    assert lazily(agreeing, smoothing, cap=500.0).precision.tolist() == [500.0] * 3
    opposed = torch.stack([torch.eye(3), torch.eye(3).roll(1, 0)])
    assert lazily(opposed, smoothing, cap=500.0).precision.tolist() == [3.0] * 3


def test_one_draw_has_the_precision_of_the_data():
    lazy = lazily(draws(1.0, members=1), cap=777.0)
    assert (lazy.precision == 777.0).all()


def test_a_cap_below_the_floor_gives_the_floor():
    assert (lazily(draws(0.1), cap=2.0).precision == 10.0).all()


def test_uncertainties_are_those_of_the_concentration():
    lazy = lazily(draws(1.0))
    expected = dirichlet.uncertainty(lazy.concentration)
    torch.testing.assert_close(lazy.total, expected.total)
    torch.testing.assert_close(lazy.aleatoric, expected.aleatoric)
    torch.testing.assert_close(lazy.epistemic, expected.epistemic)


def test_labels_confidence_and_length():
    prediction = Prediction(torch.tensor([[0.2, 0.8], [0.7, 0.3]]), torch.ones(2, 2))
    assert prediction.labels.tolist() == [1, 0]
    assert prediction.confidence.tolist() == pytest.approx([0.8, 0.7])
    assert len(prediction) == 2


def test_a_given_concentration_is_taken_as_it_is():
    """Dir(1, 1): total log 2, aleatoric ψ(3) − ψ(2) = 1/2."""
    prediction = Prediction(torch.tensor([[0.5, 0.5]]), torch.ones(1, 2))
    assert prediction.precision.tolist() == [2.0]
    assert prediction.aleatoric.item() == pytest.approx(0.5, rel=1e-6)
    assert prediction.epistemic.item() == pytest.approx(math.log(2) - 0.5, rel=1e-5)


def test_a_prediction_can_be_stored():
    lazy = lazily(draws(1.0))
    again = pickle.loads(pickle.dumps(lazy))
    assert torch.equal(again.concentration, lazy.concentration)
