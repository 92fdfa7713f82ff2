import numpy as np
import pytest
import torch

from felbo import predict
from felbo.evaluation import checks


def test_predictions_tensors_and_arrays_give_the_same_probabilities():
    draws = torch.tensor([[[0.25, 0.75], [0.5, 0.5]]])
    expected = draws[0].double()
    for given in (predict(draws), draws[0], draws[0].numpy(), draws[0].tolist()):
        found = checks.probabilities(given)
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        (torch.zeros(0, 3), "B ≥ 1"),
        (torch.ones(3), r"got \[3\]"),
        (torch.ones(3, 1), "K ≥ 2"),
        (torch.tensor([[0.5, torch.nan]]), "item 0 hold NaN"),
        (torch.tensor([[1.5, -0.5]]), "not negative"),
        (torch.tensor([[2.0, 3.0]]), "not logits"),
    ],
)
def test_what_is_no_probability_is_refused(probs, message):
    with pytest.raises(ValueError, match=message):
        checks.probabilities(probs)


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0, 1], ValueError, r"shape \[3\], got \[2\]"),
        ([[1, 0], [1, 0], [0, 1]], ValueError, "argmax"),
        ([0, 1, 2], ValueError, "0 … 1"),
        ([0, 1, -1], ValueError, "from -1"),
        ([0.0, 1.0, 0.5], TypeError, "not integers"),
        (["a", "b", "a"], TypeError, "LabelEncoder"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, error, message):
    with pytest.raises(error, match=message):
        checks.probabilities_and_labels(torch.full((3, 2), 0.5), np.array(labels))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (torch.zeros(0), "one number per item"),
        (torch.zeros(2, 2), "one number per item"),
        ([1.0, torch.nan], "precision must be finite, got nan for item 1"),
        ([torch.inf], "precision must be finite"),
    ],
)
def test_scores_are_finite_and_one_per_item(values, message):
    with pytest.raises(ValueError, match=message):
        checks.scores_per_item(values, "precision")
