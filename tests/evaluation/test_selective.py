from itertools import permutations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from felbo.evaluation import risk_coverage

from .samples import seeded

TIED = [0.1, 0.2, 0.2, 0.2, 0.5, 0.5, 0.9]
RIGHT = [True, False, True, True, False, True, False]


def areas_of_an_order(wrong):
    """AURC and AUGRC by their sums: the second by trapezoids from (0, 0)."""
    n, errors = len(wrong), np.cumsum(wrong)
    aurc = np.mean(errors / np.arange(1, n + 1))
    curve = np.concatenate([[0.0], errors]) / n
    return aurc, np.sum((curve[1:] + curve[:-1]) / 2) / n


def test_without_ties_the_areas_are_their_sums():
    scores = torch.rand(40, generator=seeded())
    right = torch.rand(40, generator=seeded(1)) < 0.7
    found = risk_coverage(scores, right)
    aurc, augrc = areas_of_an_order(~right[scores.argsort()].numpy())
    assert found.aurc == pytest.approx(aurc)
    assert found.augrc == pytest.approx(augrc)


def test_ties_count_as_the_mean_over_their_orders():
    orders = [order for order in permutations(range(7)) if sorted_scores(order)]
    areas = [areas_of_an_order([not RIGHT[i] for i in order]) for order in orders]
    assert len(orders) == 12
    found = risk_coverage(TIED, RIGHT)
    assert (found.aurc, found.augrc) == pytest.approx(tuple(np.mean(areas, axis=0)))


def sorted_scores(order):
    return [TIED[i] for i in order] == TIED


@pytest.mark.parametrize("digits", [6, 1])
def test_generalised_area_follows_from_accuracy_and_auroc(digits):
    """(1 − AUROC) a (1 − a) + (1 − a)² / 2, with and without ties."""
    scores = (torch.rand(500, generator=seeded()) * 10**digits).round()
    right = torch.rand(500, generator=seeded(1)) > 0.4 * scores / 10**digits
    accuracy = float(right.double().mean())
    auroc = roc_auc_score(~right, scores)
    expected = (1 - auroc) * accuracy * (1 - accuracy) + (1 - accuracy) ** 2 / 2
    assert 0.5 < auroc < 1
    assert risk_coverage(scores, right).augrc == pytest.approx(expected, abs=1e-12)


def test_closed_forms_of_the_best_and_the_worst_order():
    n, wrong = 100, 20
    right = torch.arange(n) < n - wrong
    best, worst = risk_coverage(torch.arange(n), right), risk_coverage(-torch.arange(n), right)
    tail = sum((i - 80) / i for i in range(81, 101)) / n
    assert best.aurc == pytest.approx(tail)
    assert best.augrc == pytest.approx(0.2**2 / 2)
    assert worst.augrc == pytest.approx(0.8 * 0.2 + 0.2**2 / 2)
    useless = risk_coverage(torch.zeros(n), right)
    assert useless.aurc == pytest.approx(0.2)
    assert useless.augrc == pytest.approx(0.1)
    nothing_right = risk_coverage(torch.arange(n), torch.zeros(n))
    assert (nothing_right.aurc, nothing_right.augrc) == pytest.approx((1.0, 0.5))


def test_curves():
    found = risk_coverage([0.4, 0.1, 0.2, 0.3], [False, True, True, False])
    assert found.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert found.risk.tolist() == pytest.approx([0, 0, 1 / 3, 0.5])
    assert found.generalised_risk.tolist() == [0, 0, 0.25, 0.5]


def test_accuracy_at_a_coverage_and_coverage_at_an_accuracy():
    right = torch.ones(100)
    right[90:] = 0
    right[50] = 0
    found = risk_coverage(torch.arange(100), right)
    assert found.accuracy_at(0.5) == 100.0
    assert found.accuracy_at(0.9) == pytest.approx(100 * 89 / 90)
    assert found.accuracy_at(1.0) == pytest.approx(89.0)
    assert found.coverage_at(100.0) == 0.5
    # 1 − 1/90 is reached until one more error comes.
    assert found.coverage_at(98.0) == 0.9
    assert found.threshold_at(98.0) == 89.0
    assert found.coverage_at(89.0) == 1.0


def test_a_share_of_whole_items_is_not_rounded_up():
    found = risk_coverage(torch.arange(10), torch.arange(10) < 3)
    assert 0.1 * 3 > 0.3
    assert found.accuracy_at(0.1 * 3) == 100.0


def test_thresholds_do_not_part_equal_scores():
    found = risk_coverage(TIED, RIGHT)
    assert found.accuracy_at(0.3) == pytest.approx(75.0)  # all three at 0.2 come along
    assert found.coverage_at(100.0) == pytest.approx(1 / 7)
    assert found.coverage_at(70.0) == pytest.approx(4 / 7)
    accepted = torch.tensor(TIED) <= found.threshold_at(70.0) + 1e-9
    assert accepted.double().mean() == pytest.approx(found.coverage_at(70.0))


def test_an_accuracy_out_of_reach():
    found = risk_coverage([0.1, 0.2], [False, True])
    assert found.coverage_at(90.0) == 0.0
    with pytest.raises(ValueError, match=r"the best is 50\.00 %"):
        found.threshold_at(90.0)


@pytest.mark.parametrize(
    ("scores", "right", "message"),
    [
        ([0.1, torch.nan], [True, True], "uncertainty must be finite"),
        ([], [], "B ≥ 1"),
        ([0.1, 0.2], [True], "2 scores but 1"),
        ([0.1, 0.2], [2, 0], "right"),
    ],
)
def test_bad_input_is_refused(scores, right, message):
    with pytest.raises(ValueError, match=message):
        risk_coverage(torch.tensor(scores), torch.tensor(right))


def test_fractions_and_per_cent_are_not_mixed_up():
    found = risk_coverage([0.1, 0.2], [True, True])
    with pytest.raises(ValueError, match="per cent"):
        found.coverage_at(0.95)
    with pytest.raises(ValueError, match="fraction"):
        found.accuracy_at(95)
