"""Predictions of batches make one prediction."""

import pytest
import torch

import felbo
from felbo.networks import mlp

concatenate = felbo.Prediction.concatenate

X = torch.randn(9, 2, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    "model",
    [
        felbo.MAP(mlp(2, (8,), 3)),
        felbo.Ensemble(lambda: mlp(2, (8,), 3), members=3),
        felbo.ConcentrationNetwork(mlp(2, (8,), 3)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_parts_together_are_the_whole(model):
    whole = felbo.predict(model, X, num_data=50)
    parts = [felbo.predict(model, part, num_data=50) for part in X.split(4)]
    found = concatenate(parts)
    assert len(found) == 9
    for name in ("probs", "concentration", "precision", "total", "aleatoric"):
        torch.testing.assert_close(getattr(found, name), getattr(whole, name))
    assert found.is_random == whole.is_random


def test_what_does_not_belong_together_is_refused():
    model = felbo.Ensemble(lambda: mlp(2, (8,), 3), members=3)
    first, second = (felbo.predict(model, X, num_data=n) for n in (50, 60))
    with pytest.raises(ValueError, match="different models"):
        concatenate([first, second])
    direct = felbo.predict(felbo.ConcentrationNetwork(mlp(2, (8,), 3)), X)
    with pytest.raises(ValueError, match="different models"):
        concatenate([first, direct])
    with pytest.raises(ValueError, match="different models"):
        concatenate([direct, first])
    for wrong in ([], [X], X):
        with pytest.raises(TypeError, match="a list of"):
            concatenate(wrong)


def test_predictions_of_other_classes_are_refused():
    parts = [felbo.predict(torch.full((2, 4, classes), 1 / classes)) for classes in (2, 4)]
    with pytest.raises(ValueError, match=r"as many classes each, got \[2, 4\]"):
        concatenate(parts)
