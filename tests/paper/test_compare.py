"""Verdicts on made-up numbers, on both sides of each limit."""

import math
import sys

import pytest

from felbo.paper.compare import compare
from felbo.paper.published import Published
from felbo.paper.results import Summary

# `felbo.paper.compare` is the function, which hides the module of the same name.
MODULE = sys.modules["felbo.paper.compare"]


def measured(mean, error=0.0, metric="accuracy"):
    return Summary("toy", metric, "MAP", 10.0, mean, error, 10, mean, mean, mean)


@pytest.fixture
def verdict(monkeypatch):
    """A function from a measured and a published number to their comparison."""

    def judge(summary, mean, error=None, band=None):
        reference = Published("toy", summary.metric, "MAP", 10.0, mean, error, band)
        monkeypatch.setattr(MODULE, "published", lambda experiment: [reference])
        (comparison,) = compare([summary])
        return comparison

    return judge


@pytest.mark.parametrize(("mean", "agrees"), [(52.99, True), (53.01, False), (46.99, False)])
def test_three_combined_standard_errors(verdict, mean, agrees):
    # hypot(0.6, 0.8) = 1
    found = verdict(measured(mean, 0.6), 50.0, 0.8)
    assert found.agrees is agrees
    assert found.difference == pytest.approx(mean - 50.0)
    assert found.deviations == pytest.approx(mean - 50.0)


@pytest.mark.parametrize(
    ("metric", "tolerance"), [("accuracy", 1.0), ("log_likelihood", 0.10), ("ece", 0.02)]
)
def test_tolerance_where_standard_errors_are_tiny(verdict, metric, tolerance):
    assert verdict(measured(0.99 * tolerance, 1e-4, metric), 0.0, 1e-4).agrees
    assert not verdict(measured(1.01 * tolerance, 1e-4, metric), 0.0, 1e-4).agrees


def test_a_metric_without_a_tolerance_has_only_its_errors(verdict):
    assert not verdict(measured(1.31, 0.3, "other"), 0.0, 0.3).agrees
    assert verdict(measured(1.27, 0.3, "other"), 0.0, 0.3).agrees


def test_a_single_seed_counts_without_an_error_of_its_own(verdict):
    found = verdict(measured(52.0, math.nan), 50.0, 0.5)
    assert found.deviations == pytest.approx(4.0)
    assert not found.agrees


@pytest.mark.parametrize(("mean", "agrees"), [(2.19, True), (2.21, False), (-0.19, True)])
def test_bands_are_widened_by_a_fifth(verdict, mean, agrees):
    found = verdict(measured(mean, 5.0), 1.0, band=(0.0, 2.0))
    assert found.agrees is agrees
    assert math.isnan(found.deviations)


@pytest.mark.parametrize(("mean", "agrees"), [(10.9, True), (11.1, False), (8.9, False)])
def test_numbers_of_the_text_agree_within_a_tenth(verdict, mean, agrees):
    found = verdict(measured(mean, 5.0), 10.0)
    assert found.agrees is agrees
    assert math.isnan(found.deviations)


def test_only_published_cells_are_compared(monkeypatch):
    reference = Published("toy", "accuracy", "MAP", 20.0, 1.0, 0.1, None)
    monkeypatch.setattr(MODULE, "published", lambda experiment: [reference])
    assert compare([measured(1.0)]) == []
    assert compare([]) == []
