"""The example scripts run, and what they claim is so."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))


def load(name):
    path = next(path for path in EXAMPLES if path.stem == name)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_own_loop_learns_the_digits():
    assert load("own_loop").main(epochs=10).accuracy > 90


def test_existing_ensemble_is_least_sure_where_the_networks_part():
    prediction = load("existing_ensemble").main()
    on_moon, between, beyond = prediction.epistemic.tolist()
    assert beyond > 10 * max(on_moon, between)
    assert prediction.total[1] > 3 * prediction.total[0]


def test_random_forest_prior_brings_the_network_nearer_to_the_forest():
    distances = load("random_forest_prior").main()
    assert distances["forest prior"] < 0.5 * distances["conventional"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_says_how_to_run_it_and_has_a_test(path):
    assert f"python examples/{path.name}" in path.read_text()
    assert f'load("{path.stem}")' in Path(__file__).read_text()
