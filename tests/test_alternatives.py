"""The comparison with other libraries measures what its page says."""

import math
from pathlib import Path

import pandas as pd
import pytest
import torch

import felbo
from felbo.report.page import parts

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture
def start():
    from benchmarks.rivals.task import task

    return task(0)


def committed():
    from benchmarks.alternatives import CSV

    return pd.read_csv(CSV, dtype={"version": str})


def test_draws_that_contradict_each_other_have_a_mutual_information_of_log_two():
    from benchmarks.rivals.task import answer

    draws = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    assert answer(draws).probs.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert answer(draws).epistemic.tolist() == pytest.approx([math.log(2), 0.0])
    assert answer(draws[:1]).epistemic is None


def test_the_parts_of_the_data_do_not_overlap(start):
    digits = start.digits
    sizes = [len(part[0]) for part in (digits.train, digits.validation, digits.test)]
    assert sizes == [1000, 200, 597]
    every = torch.cat([part[0] for part in (digits.train, digits.validation, digits.test)])
    assert len(every.flatten(1).unique(dim=0)) == 1797  # no image twice
    blended, test = digits.unlike["blended"], digits.test[0]
    assert torch.equal(blended[0], (test[0] + test[-1]) / 2)


def test_temperature_scaling_by_hand_is_that_of_felbo(start):
    from benchmarks.rivals.plain import temperature_scaling

    x = start.digits.test[0]
    tempered = felbo.calibrate(felbo.MAP(start.network), start.digits.validation)
    expected = felbo.predict(tempered, x).probs
    with torch.no_grad():
        assert torch.allclose(temperature_scaling(start)(x).probs, expected, atol=1e-3)


def test_scores_are_those_of_felbo(start):
    from benchmarks.alternatives import measure
    from benchmarks.rivals import METHODS

    row = measure(METHODS[0], start)
    found = felbo.evaluate(
        felbo.MAP(start.network), start.digits.test, ood=start.digits.unlike, resamples=2
    )
    assert row["log-likelihood"] == pytest.approx(found.test.log_likelihood.value, abs=1e-4)
    assert row["accuracy"] == pytest.approx(found.test.accuracy.value)
    assert row["ece"] == pytest.approx(found.test.ece.value, abs=1e-4)
    for name in ("negative", "turned", "blended"):
        assert row[f"{name} entropy"] == pytest.approx(found.ood[name]["total"].auroc, abs=1e-3)
        assert row[f"{name} epistemic"] is None


def test_a_package_that_is_missing_is_named_and_keeps_its_rows(capsys):
    from benchmarks.alternatives import joined, run
    from benchmarks.rivals import METHODS, Method

    absent = Method("no-such-package", "its method", lambda task: pytest.fail("called"))
    new, missing = run([METHODS[0], absent], [0])
    assert missing == ["no-such-package"]
    assert "no-such-package is skipped" in capsys.readouterr().out
    old = new.assign(package="no-such-package", ece=0.25)
    both = joined(new, pd.concat([old, new.assign(ece=0.5)]), missing)
    assert both["package"].tolist() == ["torch", "no-such-package"]
    assert both["ece"].tolist() == [new["ece"][0], 0.25]


def test_the_table_has_means_over_seeds():
    from benchmarks.alternatives import body

    frame = committed().query("method == 'deep ensemble of 5 [s]'").copy()
    frame["log-likelihood"] = [-0.1, -0.2, -0.6]
    frame["negative epistemic"] = float("nan")
    line = body(frame).splitlines()[2].split(" | ")
    assert line[1:3] == ["deep ensemble of 5 [s]", "−0.300"]
    assert line[5] == f"{frame['negative entropy'].mean():.2f} / –"


def test_places_are_counted_from_the_best():
    from benchmarks.alternatives import UNLIKE, places

    frame = pd.DataFrame(
        {
            "package": ["torch", "felbo", "other"],
            "method": ["a", "b", "c"],
            "log-likelihood": [-0.3, -0.2, -0.1],
            "ece": [0.3, 0.2, 0.1],
            "accuracy": [90.0, 91.0, 91.0],
            **{f"{name} entropy": [0.5, 0.9, 0.8] for name in UNLIKE},
        }
    )
    expected = "Places of felbo's rows among the 3: log-likelihood 2; ECE 2; accuracy 1; "
    assert places(frame).startswith(expected + "negative by entropy 1; ")


def test_the_page_shows_the_committed_results():
    from benchmarks.alternatives import COMMAND, PAGE, SEEDS, body
    from benchmarks.rivals import METHODS

    shown = parts(PAGE.read_text("utf-8"))[COMMAND].splitlines()
    made = body(committed()).splitlines()
    told = [line for line in made if line.startswith(("|", "Places"))]
    assert [line for line in shown if line.startswith(("|", "Places"))] == told
    assert len(committed()) == len(METHODS) * len(SEEDS)
