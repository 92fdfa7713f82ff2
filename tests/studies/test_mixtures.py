"""Mixtures for images: what a cell holds, and the criterion on made-up numbers."""

import pytest

from felbo.paper.results import Raw, summarise
from felbo.studies import mixtures

SETTINGS = {**mixtures.STUDY.presets["smoke"].settings, "strengths": (0.03, 0.1)}


@pytest.mark.parametrize(("mixture", "strengths"), [("recommended", [0.03, 0.1]), ("none", [0.0])])
def test_a_cell_has_price_and_gain_at_every_strength(mixture, strengths):
    name = f"digits: {mixture if mixture != 'none' else mixtures.NONE}"
    found = mixtures.run(name, 0, SETTINGS)
    metrics = ("log_likelihood", "accuracy", "ece", "unforeseen")
    assert [(o.metric, o.shift) for o in found] == [(m, s) for s in strengths for m in metrics]
    assert all(o.value < 0 for o in found if o.metric in ("log_likelihood", "unforeseen"))


def summaries(mixture, nats, points, bought):
    """The same price on two sets and three times as much on the third, with mean ``nats``."""
    rows = []
    for data, share in zip(mixtures.DATASETS, (0.6, 0.6, 1.8), strict=True):
        for name, strength, lost in ((mixtures.NONE, 0.0, 0.0), (mixture, 0.05, share)):
            values = {
                "log_likelihood": -0.1 - lost * nats,
                "accuracy": 95.0 - lost * points,
                "ece": 0.01,
                "unforeseen": bought if strength else -4.0,
            }
            rows += [
                Raw("mixtures_elsewhere", metric, f"{data}: {name}", strength, 0, value)
                for metric, value in values.items()
            ]
    return summarise(rows)


@pytest.mark.parametrize(
    ("nats", "points", "allowed"), [(0.019, 0.29, True), (0.021, 0.0, False), (0.0, 0.31, False)]
)
def test_the_rule_is_on_the_mean_over_the_data_sets(nats, points, allowed):
    (offer,) = mixtures.offers(summaries("recommended", nats, points, -2.0))
    assert offer[:2] == ("recommended", 0.05)
    assert offer[2:] == pytest.approx((nats, points, -2.0))
    assert offer.allowed == allowed
    (claim,) = mixtures.claims(summaries("recommended", nats, points, -2.0))
    assert claim.holds == allowed


def test_a_mixture_that_misses_a_data_set_is_not_on_offer():
    rows = [s for s in summaries("recommended", 0.0, 0.0, -2.0) if "digits" not in s.model]
    assert mixtures.offers(rows) == []


def test_the_figure_is_drawn(tmp_path):
    mixtures.draw(summaries("recommended", 0.01, 0.0, -2.0), str(tmp_path / "mixtures"))
    assert (tmp_path / "mixtures.png").stat().st_size > 5000
