import math

import numpy as np
import pytest
import torch

import felbo
from felbo.evaluation import conformal

from .samples import overconfident, seeded


def test_threshold_is_the_order_statistic_of_the_score():
    """Of n = 19 scores, ⌈20 · 0.9⌉ = 18: the second largest."""
    top = torch.linspace(0.05, 0.95, 19).double()
    probs = torch.stack([top, 1 - top], -1)
    sets = conformal(probs, torch.zeros(19).long(), coverage=0.9)
    assert sets.thresholds.tolist() == pytest.approx([1 - 0.1] * 2)
    assert sets.sets([[0.1, 0.9], [0.09, 0.91], [0.5, 0.5]]).tolist() == [
        [True, True],
        [False, True],
        [True, True],
    ]


@pytest.mark.parametrize("size", [9, 10, 19, 99, 100, 137])
def test_rank_is_the_finite_sample_one(size):
    top = torch.linspace(0.01, 0.99, size).double()
    sets = conformal(torch.stack([top, 1 - top], -1), torch.zeros(size).long(), coverage=0.9)
    rank = -(-(size + 1) * 9 // 10)  # ⌈(n + 1) · 0.9⌉ in whole numbers
    assert float(sets.thresholds[0]) == pytest.approx(float((1 - top).sort().values[rank - 1]))


def test_aps_against_its_definition():
    probs, labels = overconfident(size=60, classes=5)
    sets = conformal(probs, labels, method="aps", generator=seeded(3))
    u = torch.rand(60, 1, generator=seeded(3), dtype=torch.float64)[:, 0].numpy()
    p, y = probs.numpy(), labels.numpy()
    scores = [p[i][p[i] > p[i, y[i]]].sum() + u[i] * p[i, y[i]] for i in range(60)]
    threshold = np.sort(scores)[math.ceil(61 * 0.9) - 1]
    assert float(sets.thresholds[0]) == pytest.approx(threshold)
    found = sets.sets(probs, generator=seeded(4)).numpy()
    u = torch.rand(60, 1, generator=seeded(4), dtype=torch.float64)[:, 0].numpy()
    for i in range(60):
        for k in range(5):
            score = p[i][p[i] > p[i, k]].sum() + u[i] * p[i, k]
            assert found[i, k] == (score <= threshold)


def simulated(method, *, per_class=False, randomised=True, repetitions=300, held_out=99):
    """Coverage on fresh data, marginal and per class, over many held-out sets."""
    size = held_out + 300
    probs, labels = overconfident(size=repetitions * size, classes=3, seed=7)
    generator, marginal, classes = seeded(), [], []
    for p, y in zip(probs.split(size), labels.split(size), strict=True):
        sets = conformal(
            p[:held_out],
            y[:held_out],
            method=method,
            per_class=per_class,
            randomised=randomised,
            generator=generator,
        )
        found = sets.coverage(p[held_out:], y[held_out:], generator=generator)
        marginal.append(found.marginal)
        classes.append([found.per_class[k] for k in range(3)])
    return np.array(marginal), np.array(classes)


@pytest.mark.parametrize("method", ["threshold", "aps"])
def test_coverage_is_exact_for_exchangeable_data(method):
    """With n = 99 it is ⌈100 · 0.9⌉ / 100 = 0.9, though the model is overconfident."""
    marginal, _ = simulated(method)
    error = marginal.std() / math.sqrt(len(marginal))
    assert abs(marginal.mean() - 0.9) < 4 * error
    assert error < 0.003
    # Over held-out sets, coverage follows Beta(90, 10), seen through 300 items.
    variance = 0.9 * 0.1 / 101 + 0.9 * 0.1 / 300
    assert marginal.var() == pytest.approx(variance, rel=0.35)


def test_aps_without_randomisation_covers_too_much():
    marginal, _ = simulated("aps", randomised=False, repetitions=100)
    assert marginal.mean() > 0.9


@pytest.mark.parametrize("method", ["threshold", "aps"])
def test_every_class_is_covered_where_sets_are_made_class_by_class(method):
    """Each class has its own n_k, so its coverage lies in [0.9, 0.9 + 1 / (n_k + 1)]."""
    _, classes = simulated(method, per_class=True, held_out=299, repetitions=150)
    error = classes.std(0) / math.sqrt(len(classes))
    assert (classes.mean(0) > 0.9 - 4 * error).all()
    assert (classes.mean(0) < 0.9 + 1 / 80 + 4 * error).all()


def test_marginal_sets_may_fail_a_class_and_class_by_class_sets_do_not():
    """Class 1 is predicted at 0.3 when it is right, class 0 at 0.9."""
    labels = (torch.rand(4000, generator=seeded()) < 0.05).long()
    noise = 0.05 * torch.rand(4000, generator=seeded(1)).double()
    top = torch.where(labels == 1, 0.7, 0.9) + noise
    probs = torch.stack([top, 1 - top], -1)
    fit, new = slice(0, 2000), slice(2000, 4000)
    marginal = conformal(probs[fit], labels[fit]).coverage(probs[new], labels[new])
    by_class = conformal(probs[fit], labels[fit], per_class=True).coverage(probs[new], labels[new])
    assert marginal.marginal == pytest.approx(0.9, abs=0.03)
    assert marginal.per_class[1] < 0.1
    assert min(by_class.per_class.values()) > 0.8


def test_coverage_counts_sizes_and_empty_sets():
    sets = felbo.ConformalSets(torch.tensor([0.4, 0.4]).double(), 0.9, "threshold", True)
    found = sets.coverage([[0.9, 0.1], [0.5, 0.5], [0.3, 0.7]], [0, 0, 0])
    assert (found.marginal, found.size, found.empty) == pytest.approx((1 / 3, 2 / 3, 1 / 3))
    assert found.per_class == {0: pytest.approx(1 / 3)}


def test_predictions_arrays_and_seeds():
    probs, labels = overconfident(200)
    prediction = felbo.predict(probs[None])
    first = felbo.conformal(prediction, labels.numpy(), method="aps", generator=seeded())
    second = felbo.conformal(probs.numpy(), labels, method="aps", generator=seeded())
    assert torch.equal(first.thresholds, second.thresholds)
    again = [first.sets(prediction, generator=seeded(1)) for _ in range(2)]
    assert torch.equal(*again)
    assert again[0].dtype == torch.bool
    assert again[0].shape == (200, 4)
    measured = first.coverage(prediction, labels, generator=seeded(1))
    assert measured.size == again[0].sum(-1).double().mean()


def test_too_few_items_are_refused_at_the_exact_number():
    probs, labels = torch.full((9, 2), 0.5), torch.zeros(9).long()
    conformal(probs, labels, coverage=0.9)
    with pytest.raises(ValueError, match="at least 9 held-out items, got 8 items"):
        conformal(probs[:8], labels[:8], coverage=0.9)
    with pytest.raises(ValueError, match=r"at least 9 .* 0 of class 1"):
        conformal(probs, labels, coverage=0.9, per_class=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"coverage": 90}, "fraction"), ({"coverage": 0.0}, "fraction"), ({"method": "raps"}, "aps")],
)
def test_unknown_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        conformal(*overconfident(50), **settings)


def test_other_numbers_of_classes_are_refused():
    sets = conformal(*overconfident(50, classes=4))
    with pytest.raises(ValueError, match="for 4 classes, got predictions for 3"):
        sets.sets(torch.full((2, 3), 1 / 3))
