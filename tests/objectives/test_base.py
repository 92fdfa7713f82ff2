import pytest
import torch

import felbo
from felbo.objectives import Loss, NegativeLogLikelihood, as_objective


def test_objectives_stay_what_they_are():
    objective = NegativeLogLikelihood()
    assert as_objective(objective) is objective


def test_a_function_becomes_an_objective():
    seen = []

    def function(model, x, y):
        seen.append((model, x, y))
        return Loss(torch.tensor(3.0), torch.tensor(2.0), torch.tensor(1.0))

    objective = as_objective(function)
    assert isinstance(objective, felbo.Objective)
    assert objective("model", "x", "y").total == 3
    assert seen == [("model", "x", "y")]
    assert objective.num_samples is None
    objective.begin(16)
    assert objective.full_batch == 16
    assert as_objective(function).full_batch == 0


@pytest.mark.parametrize("value", [NegativeLogLikelihood, None, 3, "nll"])
def test_anything_else_is_refused(value):
    with pytest.raises(TypeError, match=r"An objective is an instance such as .* got "):
        as_objective(value)
