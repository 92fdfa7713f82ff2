"""The lazy Dirichlet equals an eager fit, and the reductions lose nothing."""

import math
import pickle
import warnings

import pytest
import torch

from felbo import dirichlet
from felbo.evaluation.prediction import Prediction, Spread, summarise


def draws(noise, members=10, items=200, classes=10, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(items, classes, generator=generator)
    return (logits + noise * torch.randn(members, items, classes, generator=generator)).softmax(-1)


def lazily(probs, smoothing=1e-4, cap=1e6):
    mean, spread = summarise(probs, smoothing)
    return Prediction(mean, Spread(len(probs), spread, smoothing, cap))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("noise", [1.0, 0.1, 0.01, 1e-6])
def test_the_lazy_fit_is_the_eager_one(noise, dtype):
    probs = draws(noise).to(dtype)
    eager = dirichlet.fit(dirichlet.smooth(probs.double()), max_precision=1e14)
    lazy = lazily(probs, cap=1e14)
    assert lazy.concentration.dtype == dtype
    torch.testing.assert_close(lazy.precision.double(), eager.precision, rtol=1e-4, atol=0)
    ratio = lazy.concentration / lazy.precision.unsqueeze(-1)
    torch.testing.assert_close(ratio.double(), eager.mean, rtol=1e-6, atol=0)


def test_blocks_change_nothing(monkeypatch):
    probs = draws(0.1)
    kept, (mean, spread) = probs.clone(), summarise(probs, 1e-4)
    monkeypatch.setattr("felbo.evaluation.prediction._BLOCK", 700)
    again = summarise(probs, 1e-4)
    assert torch.equal(again[0], mean)
    torch.testing.assert_close(again[1], spread, rtol=1e-12, atol=0)
    assert torch.equal(probs, kept)


@pytest.mark.parametrize("smoothing", [0.0, 1e-4])
def test_corners_of_the_simplex(smoothing):
    agreeing = torch.eye(3).expand(4, 3, 3)
    assert lazily(agreeing, smoothing, cap=500.0).precision.tolist() == [500.0] * 3
    opposed = torch.stack([torch.eye(3), torch.eye(3).roll(1, 0)])
    assert lazily(opposed, smoothing, cap=500.0).precision.tolist() == [3.0] * 3


def test_a_cap_below_the_floor_gives_the_floor():
    assert (lazily(draws(0.1), cap=2.0).precision == 10.0).all()


def test_uncertainties_are_those_of_the_concentration():
    lazy = lazily(draws(1.0))
    expected = dirichlet.uncertainty(lazy.concentration)
    for name in ("total", "aleatoric", "epistemic"):
        torch.testing.assert_close(getattr(lazy, name), getattr(expected, name))


def test_a_single_draw_shows_no_epistemic_uncertainty():
    probs = draws(1.0, members=1)
    lazy = lazily(probs, cap=777.0)
    assert (lazy.precision == 777.0).all()
    with pytest.warns(UserWarning, match="One draw has no epistemic uncertainty"):
        assert lazy.epistemic.isnan().all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        entropy = -(lazy.concentration / 777 * (lazy.concentration / 777).log()).sum(-1)
        torch.testing.assert_close(lazy.total, entropy)
        torch.testing.assert_close(lazy.aleatoric, entropy)
        assert lazily(probs.expand(2, -1, -1)).epistemic.isfinite().all()


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
