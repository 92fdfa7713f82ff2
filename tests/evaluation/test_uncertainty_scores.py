import pytest
import torch

import felbo
from felbo.evaluation import uncertainty_scores


def test_larger_where_less_certain():
    agreed = [[0.99, 0.01], [0.98, 0.02], [0.99, 0.01]]
    apart = [[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]]
    prediction = felbo.predict(torch.tensor([agreed, apart]).transpose(0, 1))
    scores = uncertainty_scores(prediction)
    assert list(scores) == ["confidence", "total", "epistemic", "precision"]
    for name, values in scores.items():
        assert values.dtype == torch.float64
        assert values[1] > values[0], name
    assert torch.equal(scores["precision"], -prediction.precision.double())
    assert torch.equal(scores["confidence"], -prediction.confidence.double())


def test_a_single_draw_has_no_epistemic_score(recwarn):
    scores = uncertainty_scores(felbo.predict(torch.full((1, 3, 2), 0.5)))
    assert list(scores) == ["confidence", "total"]
    assert len(recwarn) == 0


def test_a_concentration_has_all_scores():
    model = felbo.ConcentrationNetwork(felbo.networks.mlp(2, (4,), 3))
    assert len(uncertainty_scores(felbo.predict(model, torch.zeros(5, 2)))) == 4


def test_probabilities_alone_are_refused():
    with pytest.raises(TypeError, match="got Tensor"):
        uncertainty_scores(torch.full((3, 2), 0.5))
