"""Optimisers and rates of fine-tuning: what a cell holds, and the criterion on made-up numbers."""

import pytest
import torch

import felbo
from felbo.paper.results import Raw, summarise
from felbo.studies import finetune_rates, small_networks

SETTINGS = finetune_rates.STUDY.presets["smoke"].settings


def test_a_cell_has_price_and_gain_of_every_way():
    found = finetune_rates.run("wine: perceptron", 0, SETTINGS)
    before = ("log_likelihood", "accuracy", "ece", "auroc")
    after = ("diverged", "nats", "points", "ece", "auroc")
    assert [(o.metric, o.shift) for o in found] == [
        *((f"before {metric}", 0.0) for metric in before),
        *((f"Adam {metric}", 0.003) for metric in after),
    ]
    value = {o.metric: o.value for o in found}
    assert value["before log_likelihood"] < 0 <= value["before accuracy"] <= 100
    assert value["Adam nats"] < -0.1  # two epochs leave much to learn


@pytest.mark.parametrize(
    ("case", "way"),
    [
        ("wine: perceptron", ("Adam", 0.003)),
        ("digits: perceptron with layer normalisation", ("SGD", 0.01)),
    ],
)
def test_the_default_is_one_of_the_ways(case, way):
    """Weights are those of felbo.finetune without any option."""
    model, train, _ = small_networks.trained(small_networks.CASES[case], 0, SETTINGS)
    found = finetune_rates.tuned(model, train, *way, seed=3)
    expected = felbo.finetune(model, train, seed=3, progress=False)
    for new, old in zip(found.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(new, old)


@pytest.mark.parametrize("name", small_networks.CASES)
def test_networks_have_the_normalisation_of_their_group(name):
    case = small_networks.CASES[name]
    kinds = {type(part).__name__ for part in case.make().modules()}
    batch = any("BatchNorm" in kind for kind in kinds)
    other = any(kind in kinds for kind in ("LayerNorm", "GroupNorm"))
    expected = {
        small_networks.NONE: (False, False),
        small_networks.BATCH: (True, False),
        small_networks.OTHER: (False, True),
    }
    assert (batch, other) == expected[case.group]


def test_a_way_that_ends_in_numbers_that_are_not_finite_is_noted_and_the_next_one_run():
    settings = {**SETTINGS, "ways": (("SGD", 1e30), ("Adam", 0.003))}
    found = finetune_rates.run("wine: perceptron", 0, settings)
    assert [o.value for o in found if o.metric == "SGD diverged"] == [1.0]
    assert [o.value for o in found if o.metric == "Adam diverged"] == [0.0]
    assert not any(o.metric == "SGD nats" for o in found)


def test_a_network_that_is_not_finite_forbids_the_way_though_the_others_gain():
    gains = summaries((-0.1, -0.1), (0.0, 0.0))
    lost = Raw("finetune_rates", "Adam diverged", "MNIST: perceptron", 0.003, 0, 1.0)
    (offer,) = finetune_rates.offers([*gains, *summarise([lost])])
    assert (offer.nats, offer.diverged, offer.allowed) == (pytest.approx(-0.1), 1, False)
    (alone,) = finetune_rates.offers(summarise([lost]))
    assert (alone.diverged, alone.allowed) == (1, False)


def summaries(nats, points, auroc=0.05):
    """Prices of two networks without normalisation."""
    rows = []
    for name, lost, wrong in zip(
        ("digits: perceptron", "wine: perceptron"), nats, points, strict=True
    ):
        values = {"before auroc": 0.5, "Adam nats": lost, "Adam points": wrong, "Adam auroc": auroc}
        values["Adam diverged"] = 0.0
        rows += [
            Raw("finetune_rates", metric, name, 0.0 if "before" in metric else 0.003, 0, value)
            for metric, value in values.items()
        ]
    return summarise(rows)


@pytest.mark.parametrize(
    ("nats", "points", "allowed"),
    [
        ((0.1, -0.07), (0.4, 0.0), True),
        ((0.1, -0.05), (0.0, 0.0), False),  # 0.025 in the mean
        ((0.0, 0.0), (0.8, 0.0), False),
        ((0.21, -0.9), (0.0, 0.0), False),  # one network diverges
        ((0.0, 0.0), (5.1, -9.0), False),
    ],
)
def test_the_rule_is_on_the_mean_and_on_the_worst_network(nats, points, allowed):
    (offer,) = finetune_rates.offers(summaries(nats, points))
    assert offer[:3] == (small_networks.NONE, "Adam", 0.003)
    assert offer[3:] == pytest.approx(
        (sum(nats) / 2, sum(points) / 2, max(nats), max(points), 0.05, 0)
    )
    (claim,) = finetune_rates.claims(summaries(nats, points))
    assert claim.holds == offer.allowed == allowed


def test_the_figure_is_drawn(tmp_path):
    finetune_rates.draw(summaries((0.01, 0.0), (0.1, 0.1)), str(tmp_path / "rates"))
    assert (tmp_path / "rates.png").stat().st_size > 5000
