"""The numbers in the charts are those of the evaluation."""

import numpy as np
import pytest

from felbo.evaluation.selective import risk_coverage
from felbo.page.charts import charts, curves

from .stored import stored


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    run, found = stored(tmp_path_factory.mktemp("run"), name="c")
    return found, charts(run, found)


def test_the_confusion_matrix_counts_every_item(made):
    found, drawn = made
    matrix = np.array(drawn["confusion"]["data"][0]["text"])
    predicted = found.test["probs"].argmax(-1)
    assert matrix.sum() == 60
    assert matrix[1, 2] == ((found.labels == 1) & (predicted == 2)).sum()
    assert np.allclose(np.array(drawn["confusion"]["data"][0]["z"]).sum(1), 1, atol=1e-4)


def test_names_of_classes_leave_room_for_the_matrix(tmp_path):
    names = [f"{place:02d} is the number of a class" for place in range(40)]
    drawn = charts(*stored(tmp_path, name="c", classes=names))["confusion"]
    axis = drawn["layout"]["xaxis"]
    assert axis["tickvals"] == list(range(0, 40, 2))  # every other one, 25 at most
    assert axis["ticktext"][1] == "02 is t… class"
    # Beside the mouse the names are whole.
    assert drawn["data"][0]["customdata"][3][7] == (names[3], names[7])
    assert drawn["height"]


def test_histograms_are_shares_of_each_set(made):
    _, drawn = made
    for name in ("confidence", "epistemic"):
        traces = drawn[name]["data"]
        assert [trace["name"] for trace in traces] == ["held-out", "far c"]
        assert all(sum(trace["y"]) == pytest.approx(1, abs=1e-3) for trace in traces)


def test_reliability_bars_are_the_bins(made):
    found, drawn = made
    bars = drawn["reliability"]["data"][0]
    assert np.allclose(bars["y"], found.scores["test"]["reliability"]["accuracy"], atol=1e-4)
    assert sum(count for count, _ in bars["customdata"]) == 60


def test_the_control_answers_with_the_risk_of_the_library(made):
    found, _ = made
    correct = found.test["probs"].argmax(-1) == found.labels
    curve = risk_coverage(found.test["total"], correct)
    told = curves(found)["total"]
    place = next(i for i, share in enumerate(told["coverage"]) if share >= 0.8)
    assert 100 * (1 - told["risk"][place]) == pytest.approx(curve.accuracy_at(0.8), abs=1e-2)
    negated = curves(found)["confidence"]
    assert negated["negated"]
    assert max(negated["threshold"]) < 0


def test_training_curves(made):
    _, drawn = made
    assert drawn["training"]["data"][0]["y"] == [1.0, 0.5]


def test_a_model_of_one_draw_shows_its_total_uncertainty(tmp_path):
    run, found = stored(tmp_path, name="c", random=False)
    title = charts(run, found)["epistemic"]["layout"]["xaxis"]["title"]["text"]
    assert title == "total uncertainty, nats"
    assert sorted(curves(found)) == ["confidence", "total"]
