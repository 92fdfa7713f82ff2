"""`felbo evaluate`: what it refuses."""

import pytest

from .runs import felbo, trained


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("trained"))


@pytest.mark.parametrize("name", ["held-out", "Held-Out"])
def test_the_evaluation_that_sets_the_threshold_stays(name, run):
    stored = run / "evaluations" / "held-out.json"
    before = stored.read_bytes()
    refused = felbo("evaluate", run, run.parent / "train.csv", "--name", name)
    assert refused.exit_code == 1
    assert "Choose another --name" in refused.stderr
    assert stored.read_bytes() == before


def test_options_of_images_are_refused(run):
    refused = felbo("evaluate", run, run.parent / "train.csv", "--limit", "10")
    assert refused.exit_code == 1
    assert "--limit: without a meaning" in refused.stderr
