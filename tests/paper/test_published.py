"""The published numbers: how many there are, and some of them as printed."""

from collections import Counter

import pytest

from felbo.paper.published import _all, published


def test_number_of_published_values():
    kinds = Counter(
        "table" if row.standard_error is not None else "figure" if row.band else "text"
        for row in _all()
    )
    assert kinds == {"table": 1176, "figure": 196, "text": 4}


@pytest.mark.parametrize(
    ("metric", "model", "angle", "mean"),
    [
        ("accuracy", "MAP fVI", 0, 97.09),
        ("log_likelihood", "MAP fVI", 90, -4.14),
        ("log_likelihood", "MAP", 90, -7.22),
        ("ece", "MAP", 180, 0.56),
        ("accuracy", "Ensemble fVI", 30, 78.87),
        ("log_likelihood", "Ensemble fVI", 180, -3.16),
    ],
)
def test_values_of_the_rotated_mnist_tables(metric, model, angle, mean):
    found = [
        p
        for p in published("rotated_mnist")
        if (p.metric, p.model, p.shift) == (metric, model, angle)
    ]
    assert [p.mean for p in found] == [mean]


def test_values_of_the_hypercube_figure():
    first = published("hypercube")[0]
    assert first[1:5] == ("test_log_likelihood", "MAP", 2.0, -0.09241)
    assert first.band == (-0.14067, -0.04415)
    assert len(published("hypercube")) == 40
    assert len(published("hypercube_betas")) == 48


def test_no_number_is_given_twice():
    keys = Counter((p.experiment, p.metric, p.model, p.shift) for p in _all())
    assert max(keys.values()) == 1


def test_every_band_holds_its_mean():
    assert all(p.band[0] <= p.mean <= p.band[1] for p in _all() if p.band)


def test_an_unpublished_experiment_has_no_numbers():
    assert published("no_such_experiment") == []
