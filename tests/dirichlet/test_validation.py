import pytest
import torch

from felbo.dirichlet import fit, fit_spread


def nan_at(*index):
    probs = torch.full((2, 3, 4), 0.25)
    probs[index] = float("nan")
    return probs


@pytest.mark.parametrize(
    ("probs", "options", "error", "message"),
    [
        ([[0.5, 0.5]], {}, TypeError, r"probs must be a torch.Tensor, got list"),
        (torch.ones(2, 2).half(), {}, TypeError, r"float32 or float64, got torch.float16"),
        (torch.ones(2, 2).long(), {}, TypeError, r"float32 or float64, got torch.int64"),
        (torch.tensor([0.5, 0.5]), {}, ValueError, r"\[M, \.\.\., K\].*got \[2\] with 1 dim"),
        (torch.ones(3, 1), {}, ValueError, r"K >= 2 classes.*got K = 1"),
        (torch.ones(0, 2), {}, ValueError, r"at least one draw, got shape \[0, 2\]"),
        (nan_at(1, 2, 0), {}, ValueError, r"got nan at index \[1, 2, 0\]"),
        (torch.tensor([[0.5, 0.5], [1.5, -0.5]]), {}, ValueError, r"got -0.5 at index \[1, 1\]"),
        (torch.tensor([[0.5, torch.inf]] * 2), {}, ValueError, r"got inf at index \[0, 1\]"),
        (torch.tensor([[0.5, 0.5], [0.5, 0.6]]), {}, ValueError, r"sum to one.*1\.1.* index \[1\]"),
        (torch.tensor([[0.5, 0.5]]), {}, ValueError, r"one draw has no spread.*max_precision"),
        (torch.full((2, 2), 0.5), {"max_precision": 1}, ValueError, r"2\.0 > 1\.0"),
        (torch.full((2, 2), 0.5), {"min_precision": 0}, ValueError, r"min_precision.*got 0"),
        (torch.full((2, 2), 0.5), {"max_precision": torch.inf}, ValueError, r"finite, got inf"),
    ],
)
def test_bad_draws_are_refused(probs, options, error, message):
    with pytest.raises(error, match=message):
        fit(probs, **options)


@pytest.mark.parametrize(
    ("mean", "spread", "error", "message"),
    [
        (torch.ones(2).half(), torch.ones(()), TypeError, r"mean must be float32 or float64"),
        (torch.ones(2), 0.1, TypeError, r"spread must be a torch.Tensor, got float"),
        (torch.ones(3, 2), torch.ones(2), ValueError, r"got \[3, 2\] and \[2\]"),
        (torch.ones(3, 1), torch.ones(3), ValueError, r"K >= 2"),
    ],
)
def test_bad_statistics_are_refused(mean, spread, error, message):
    with pytest.raises(error, match=message):
        fit_spread(mean, spread)
