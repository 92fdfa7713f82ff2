import importlib
import math

import pytest
import torch

from felbo.evaluation.bootstrap import Estimate, bootstrap

from .samples import seeded


def mean_of(values):
    return lambda weights: {"mean": weights @ values / len(values)}


def test_interval_of_a_mean_has_its_textbook_width():
    values = torch.randn(500, generator=seeded(), dtype=torch.float64)
    found = bootstrap(mean_of(values), 500, resamples=8000, level=0.9, generator=seeded(1))["mean"]
    error = float(values.std(correction=0)) / math.sqrt(500)
    assert found.value == pytest.approx(float(values.mean()))
    assert found.low == pytest.approx(float(values.mean() - 1.645 * error), abs=0.05 * error)
    assert found.high == pytest.approx(float(values.mean() + 1.645 * error), abs=0.05 * error)


def test_intervals_hold_the_truth_as_often_as_promised():
    truth, held = 0.3, 0
    for seed in range(300):
        values = (torch.rand(150, generator=seeded(seed)) < truth).double()
        found = bootstrap(mean_of(values), 150, resamples=300, generator=seeded(seed))["mean"]
        held += found.low <= truth <= found.high
    assert 0.90 <= held / 300 <= 0.985


def test_a_norm_has_the_quantile_of_its_noise_to_either_side():
    """|mean| of values around 0.5: the noise is normal, with the error of the mean."""
    values = 0.5 + 0.1 * torch.randn(400, generator=seeded(), dtype=torch.float64)

    def norms(weights):
        return {"size": (weights @ values / 400).abs()}

    found = bootstrap(lambda _: {}, 400, norms=norms, resamples=8000, generator=seeded(1))["size"]
    error = float(values.std(correction=0)) / 20
    assert found.value == pytest.approx(float(values.mean()))
    assert found.high - found.value == pytest.approx(1.96 * error, rel=0.05)
    assert found.value - found.low == pytest.approx(1.96 * error, rel=0.05)


def test_an_interval_of_a_norm_stays_between_zero_and_one():
    values = torch.tensor([1.0, -1.0] * 3).double()

    def around(centre):
        return lambda weights: {"norm": (weights @ (values + centre) / 6).abs()}

    settings = {"resamples": 300, "generator": seeded()}
    assert bootstrap(lambda _: {}, 6, norms=around(0.1), **settings)["norm"].low == 0.0
    assert bootstrap(lambda _: {}, 6, norms=around(0.9), **settings)["norm"].high == 1.0


def test_resamples_take_n_items_with_replacement(monkeypatch):
    # Blocks of three resamples, so that the last one is not full.
    monkeypatch.setattr(importlib.import_module("felbo.evaluation.bootstrap"), "_BLOCK", 30)
    rows = []

    def measures(weights):
        rows.append(weights)
        return {"one": torch.ones(len(weights))}

    bootstrap(measures, 10, resamples=2000, generator=seeded())
    weights = torch.cat(rows[1:])
    assert weights.shape == (2000, 10)
    assert [len(block) for block in rows[-2:]] == [3, 2]
    assert (weights.sum(-1) == 10).all()
    # An item is left out of a resample with probability (1 − 1/10)^10.
    left_out = float((weights == 0).double().mean())
    assert left_out == pytest.approx(0.9**10, abs=0.01)


def test_the_same_generator_gives_the_same_interval():
    values = torch.rand(50, generator=seeded(), dtype=torch.float64)
    first, second, other = (
        bootstrap(mean_of(values), 50, resamples=100, generator=seeded(seed)) for seed in (3, 3, 4)
    )
    assert first == second != other


def test_estimates_read_as_numbers():
    estimate = Estimate(0.5, 0.25, 0.75)
    assert float(estimate) == 0.5
    assert str(estimate) == "0.5 [0.25, 0.75]"


@pytest.mark.parametrize("settings", [{"resamples": 0}, {"level": 1.0}, {"level": 95.0}])
def test_settings_without_meaning_are_refused(settings):
    with pytest.raises(ValueError, match=r"resamples|level"):
        bootstrap(mean_of(torch.ones(3).double()), 3, **settings)


def test_a_measure_that_is_not_finite_has_no_interval():
    with pytest.raises(ValueError, match="mean is not finite"):
        bootstrap(mean_of(torch.tensor([1.0, -torch.inf]).double()), 2, resamples=10)


@pytest.mark.parametrize("rows", [1, 10], ids=["on the data", "on a resample"])
def test_the_data_and_every_resample_must_have_finite_values(rows):
    def infinite_for(weights):
        return {"odd": torch.full((len(weights),), torch.inf if len(weights) == rows else 0.0)}

    with pytest.raises(ValueError, match="odd is not finite"):
        bootstrap(infinite_for, 3, resamples=10)
