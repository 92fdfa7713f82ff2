"""The development sets of the table classifier, and its candidates."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from felbo.estimator import FunctionSpaceClassifier

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("pandas")


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture
def split():
    from benchmarks.development_sets import drawn, normals

    return drawn(normals(3, 4, 4.0), 60, 0)


def test_test_rows_are_not_trained_on(split):
    assert split.rows.shape == (60, 4)
    assert split.unseen.shape == (2000, 4)
    assert len(split.labels) == 60
    assert set(split.labels) == set(split.answers) == {0, 1, 2}
    assert not set(split.rows["column 0"]) & set(split.unseen["column 0"])


def test_rare_classes_are_left_out():
    from benchmarks.development_sets import drawn
    from benchmarks.tabular_sets import TableSet

    labels = np.repeat(["a", "b", "c"], [50, 49, 1])
    found = drawn(TableSet("rare", "", pd.DataFrame({"x": np.arange(100)}), labels), 20, 0)
    assert len(found.labels) + len(found.answers) == 99
    assert not (found.unseen["x"] == 99).any()
    assert not (found.rows["x"] == 99).any()


def test_the_candidate_that_was_taken_is_the_default(split):
    from benchmarks.table_candidates import CANDIDATES, Candidate

    memory = {}
    settings = {"epochs": 8, "members": 2, "hidden": (8,)}
    after = CANDIDATES["now, strength 0.06"](memory)
    before = Candidate(memory, measurement=after.measurement, strength=0.06, random_state=0)
    for candidate in (before, after):
        vars(candidate).update(settings)
        candidate.fit(split.rows, split.labels)
    now = FunctionSpaceClassifier(random_state=0, **settings).fit(split.rows, split.labels)
    assert before.n_iter_ == after.n_iter_ == now.n_iter_
    expected = now.predict_proba(split.unseen)
    np.testing.assert_allclose(after.predict_proba(split.unseen), expected, atol=1e-5)
    assert np.abs(before.predict_proba(split.unseen) - expected).max() > 1e-4


def test_rows_held_out_pull_the_temperature_away_from_one_as_far_as_they_are_many():
    from benchmarks.table_candidates import most_probable_temperature

    # Three of four are right, at log-odds of 2 log 3: the best temperature is 2.
    logits = torch.tensor([2 * np.log(3.0), 0.0]).expand(1, 4, 2)
    labels = torch.tensor([0, 0, 0, 1])
    found = [
        most_probable_temperature(logits.repeat(1, times, 1), labels.repeat(times))
        for times in (1, 100, 10000)
    ]
    assert 1 < found[0] < 1.1 < found[1] < found[2] == pytest.approx(2.0, abs=0.01)


def test_gains_by_hand():
    from benchmarks.tables_development import gains

    rows = [
        ("a", "before", -0.09, 0.02, 2.0),
        ("a", "new", -0.04, 0.01, 3.0),
        ("a", "MLPClassifier", -0.05, 0.0, np.nan),
        ("b", "before", -0.19, 0.02, 2.0),
        ("b", "new", -0.19, 0.02, 2.0),
        ("b", "MLPClassifier", -0.16, 0.0, np.nan),
        ("c", "before", -0.5, 0.0, 2.0),
        ("c", "MLPClassifier", -0.6, 0.0, np.nan),
    ]
    frame = pd.DataFrame(rows, columns=["set", "candidate", "log-likelihood", "ece", "seconds"])
    found = gains(frame.assign(auroc=1.0)).loc["new"]
    assert found[["sets", "ahead", "ahead of MLP"]].tolist() == [2, 1, 1]
    assert found[["nats", "± nats", "easy"]].tolist() == pytest.approx([0.025, 0.025, 0.05])
    assert found["relative"] == pytest.approx(np.log(2) / 2)
    assert found[["ece", "± ece"]].tolist() == pytest.approx([-0.005, 0.005])
    assert found[["auroc", "time"]].tolist() == pytest.approx([0.0, 1.25])


def test_the_page_shows_what_was_measured():
    from benchmarks.tables_development import page, read

    assert page(read()) in (ROOT / "docs" / "table-defaults.md").read_text(encoding="utf-8")


def test_shuffles_ratios_and_the_worst_fold_by_hand():
    from benchmarks.tables import CLASSIFIERS, remarks

    ours, theirs = CLASSIFIERS
    rows = [  # two shuffles of five folds, ahead in the first alone
        ("a", fold, name, 80.0 + 3 * (name == ours), likelihood, ece, 1.0 - 0.02 * fold)
        for fold in range(10)
        for name, likelihood, ece in (
            (ours, -0.2 if fold < 5 else -0.4, 0.03),
            (theirs, -0.3, 0.04),
        )
    ]
    columns = ["set", "fold", "classifier", "accuracy", "log-likelihood", "ece", "auroc"]
    frame = pd.DataFrame(rows, columns=columns).assign(
        package="", **{"in range": 0, "out of range": 1}
    )
    assert remarks(frame).splitlines()[-1] == "| a | 1 of 2 | 0.75 | +3.00 | 0.82 |"


def test_no_reported_table_is_a_source():
    text = (ROOT / "benchmarks" / "development_sets.py").read_text(encoding="utf-8")
    for file in ("Pima", "fgl", "biopsy", "Chile", "segment", "penguin", "sklearn.datasets"):
        assert file not in text
