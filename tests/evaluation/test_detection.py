import math
from statistics import NormalDist

import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from felbo.evaluation import detection

from .samples import seeded


def fpr_by_hand(inside, outside):
    """Smallest share of ``outside`` below a threshold that keeps 95 % of ``inside``."""
    kept = [t for t in inside.tolist() if (inside <= t).double().mean() >= 0.95 - 1e-9]
    return float((outside <= min(kept)).double().mean())


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6], ids=str)
@pytest.mark.parametrize("tied", [False, True])
def test_against_scikit_learn(scale, tied):
    inside = torch.randn(300, generator=seeded()).double()
    outside = torch.randn(200, generator=seeded(1)).double() + 1.5
    if tied:
        inside, outside = inside.round(), outside.round()
    # A shift far from [0, 1] shows whether values are taken for logits.
    inside, outside = scale * (inside + 40), scale * (outside + 40)
    truth, scores = [0] * 300 + [1] * 200, torch.cat([inside, outside])
    found = detection(inside, outside)
    assert found.auroc == pytest.approx(roc_auc_score(truth, scores), abs=1e-6)
    assert found.aupr_out == pytest.approx(average_precision_score(truth, scores), abs=1e-6)
    flipped = average_precision_score([1 - t for t in truth], -scores)
    assert found.aupr_in == pytest.approx(flipped, abs=1e-6)
    assert found.fpr95 == pytest.approx(fpr_by_hand(inside, outside), abs=1e-6)


def test_two_gaussians():
    """AUROC is Φ(d / √2), and FPR at 95 % is Φ(1.645 − d)."""
    inside = torch.randn(20_000, generator=seeded())
    outside = torch.randn(20_000, generator=seeded(1)) + 2
    found = detection(inside, outside)
    assert found.auroc == pytest.approx(NormalDist().cdf(2 / math.sqrt(2)), abs=0.005)
    assert found.fpr95 == pytest.approx(NormalDist().cdf(1.645 - 2), abs=0.015)


def test_closed_forms():
    apart = detection(torch.arange(100.0), torch.arange(100.0) + 100)
    assert (apart.auroc, apart.aupr_in, apart.aupr_out, apart.fpr95) == (1, 1, 1, 0)
    nothing = detection(torch.zeros(30), torch.zeros(10))
    expected = (0.5, 0.75, 0.25, 1.0)
    assert (nothing.auroc, nothing.aupr_in, nothing.aupr_out, nothing.fpr95) == pytest.approx(
        expected
    )


def test_exactly_95_of_100_are_enough():
    """The five most uncertain known inputs lie above all foreign ones."""
    inside = torch.cat([torch.arange(95.0), torch.full((5,), 1000.0)])
    outside = torch.full((50,), 500.0)
    assert detection(inside, outside).fpr95 == 0.0


@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        (torch.zeros(0), torch.zeros(3), "Expected inside"),
        (torch.zeros(3), torch.zeros(0), "Expected outside"),
        (torch.zeros(3), torch.tensor([torch.nan]), "outside must be finite"),
    ],
)
def test_one_class_only_and_nan_are_refused(inside, outside, message):
    with pytest.raises(ValueError, match=message):
        detection(inside, outside)
