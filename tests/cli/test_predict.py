"""`felbo predict`, `evaluate` and `export`: values as the library gives them."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

import felbo as library
from felbo.workflow import tables

from .runs import felbo, table, trained


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    # Long enough that uncertainties differ by more than the digits that are written.
    return trained(tmp_path_factory.mktemp("trained"), None, "--epochs", "40")


@pytest.fixture
def new(tmp_path):
    frame = table(50, seed=1).assign(id=[f"n{row}" for row in range(50)])
    frame.to_csv(tmp_path / "new.csv", index=False)
    return frame


def predicted(run, path, tmp_path, *options, out="out.csv"):
    result = felbo("predict", run, path, "--out", tmp_path / out, *options)
    assert result.exit_code == 0, result.output
    read = pd.read_parquet if out.endswith("parquet") else pd.read_csv
    return read(tmp_path / out), result


def test_columns_are_what_the_classifier_says(run, new, tmp_path):
    found, _ = predicted(run, tmp_path / "new.csv", tmp_path, "--keep", "id", "--keep", "a")
    assert found.columns.tolist() == [
        *("id", "a", "prediction", "confidence", "probability_minus", "probability_plus"),
        *("precision", "total", "aleatoric", "epistemic", "abstain"),
    ]
    classifier = library.load(run / "model.safetensors")
    X = new[["a", "b", "c", "colour"]]
    assert found["id"].tolist() == new["id"].tolist()
    assert found["prediction"].tolist() == classifier.predict(X).tolist()
    probs = found[["probability_minus", "probability_plus"]]
    assert np.allclose(probs, classifier.predict_proba(X), atol=1e-5)
    for kind in ("total", "aleatoric", "epistemic", "precision"):
        assert np.allclose(found[kind], classifier.uncertainty(X, kind), rtol=1e-5)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "csv.gz"])
def test_chunks_and_formats_change_nothing(suffix, run, new, tmp_path, monkeypatch):
    expected, _ = predicted(run, tmp_path / "new.csv", tmp_path)
    X = new[["a", "b", "c", "colour"]]
    if suffix == "npz":
        X = X.assign(colour="red")
        expected, _ = predicted(run, _csv(X, tmp_path), tmp_path)
        text = X["colour"].to_numpy(dtype=str)
        np.savez(tmp_path / "n.npz", **{n: X[n].to_numpy() for n in "abc"}, colour=text)
    elif suffix == "parquet":
        X.to_parquet(tmp_path / "n.parquet")
    else:
        X.to_csv(tmp_path / f"n.{suffix}", index=False)
    monkeypatch.setattr(tables.TableFile.chunks, "__defaults__", (7, None))
    monkeypatch.setattr(tables.TableFile.copies, "__defaults__", (7,))
    found, _ = predicted(run, tmp_path / f"n.{suffix}", tmp_path, "--keep", "c")
    assert np.allclose(found.pop("c"), X["c"])
    pd.testing.assert_frame_equal(found, expected)


def _csv(frame, folder):
    frame.to_csv(folder / "plain.csv", index=False)
    return folder / "plain.csv"


def test_parquet_out(run, new, tmp_path):
    expected, _ = predicted(run, tmp_path / "new.csv", tmp_path)
    found, _ = predicted(run, tmp_path / "new.csv", tmp_path, out="out.parquet")
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-5)


def test_the_default_keeps_95_percent_of_the_held_out_rows(run, tmp_path):
    with np.load(run / "evaluations" / "held-out.npz") as arrays:
        total = arrays["test/total"]
    table().to_csv(tmp_path / "new.csv", index=False)
    found, result = predicted(run, tmp_path / "new.csv", tmp_path)
    threshold = np.quantile(total, 0.95, method="higher")
    assert (total <= threshold).mean() >= 0.95
    assert (found["abstain"] == (found["total"] > threshold + 1e-6)).all()
    assert f"abstain where total > {threshold:.4g}" in result.stdout


def test_other_rules(run, new, tmp_path):
    path = tmp_path / "new.csv"
    found, _ = predicted(run, path, tmp_path, "--abstain-by", "confidence", "--threshold", "0.7")
    assert (found["abstain"] == (found["confidence"] < 0.7)).all()
    found, _ = predicted(run, path, tmp_path, "--abstain-by", "epistemic", "--threshold", "0.01")
    assert (found["abstain"] == (found["epistemic"] > 0.01)).all()
    with np.load(run / "evaluations" / "held-out.npz") as arrays:
        right = arrays["test/probs"].argmax(-1) == arrays["labels"]
        total = arrays["test/total"]
    _, result = predicted(run, path, tmp_path, "--accuracy", "90")
    threshold = float(result.stdout.split("total > ")[1])
    assert right[total <= threshold * 1.001].mean() >= 0.9


def test_unseen_categories_are_predicted_and_told(run, new, tmp_path):
    new.assign(colour="violet").to_csv(tmp_path / "new.csv", index=False)
    _, result = predicted(run, tmp_path / "new.csv", tmp_path)
    assert "'colour': 50 rows hold values that were not there in training" in result.stderr
    assert "'violet'" in result.stderr
    new.head(1).assign(colour="violet").to_csv(tmp_path / "one.csv", index=False)
    _, result = predicted(run, tmp_path / "one.csv", tmp_path)
    assert "'colour': 1 row holds values that were not there" in result.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.drop(columns="b"), "has no column 'b'"),
        (lambda f: f.assign(a=["x" if i == 3 else 1 for i in range(50)]), "row 4 holds 'x'"),
        (lambda f: f[:0], "nothing to predict"),
    ],
)
def test_tables_that_do_not_fit(change, words, run, new, tmp_path):
    change(new).to_csv(tmp_path / "new.csv", index=False)
    result = felbo("predict", run, tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert result.exit_code == 1
    assert words in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "out.xlsx"], "written to .csv"),
        (["--coverage", "1.5"], "up to 1"),
        (["--accuracy", "101"], "accuracy"),
        (["--keep", "nothing"], "has no column 'nothing'"),
    ],
)
def test_requests_that_cannot_be_met(arguments, words, run, new, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = felbo("predict", run, "new.csv", *arguments)
    assert result.exit_code == 1
    assert words in result.stderr


def test_no_run(tmp_path):
    assert "is no run" in felbo("predict", tmp_path, "new.csv").stderr
    (tmp_path / "run.json").write_text("{")
    assert "is damaged" in felbo("predict", tmp_path, "new.csv").stderr


def test_without_held_out_rows_there_is_no_rule(tmp_path, new):
    run = trained(tmp_path, None, "--test-fraction", "0")
    found, result = predicted(run, tmp_path / "new.csv", tmp_path)
    assert "abstain" not in found
    assert "without --threshold" in result.stderr


def test_evaluations_are_those_of_the_library(run, tmp_path):
    frame = table(80, seed=2)
    frame.to_csv(tmp_path / "later.csv", index=False)
    other = frame.assign(a=100.0)
    other.drop(columns="kind").to_csv(tmp_path / "other.csv", index=False)
    given = ["--name", "later", "--ood", f"clinic={tmp_path / 'other.csv'}"]
    result = felbo("evaluate", run, tmp_path / "later.csv", *given)
    assert result.exit_code == 0, result.output
    scores = json.loads((run / "evaluations" / "later.json").read_text())["scores"]
    classifier = library.load(run / "model.safetensors")
    probs = torch.from_numpy(classifier.predict_proba(frame[["a", "b", "c", "colour"]]))
    labels = torch.tensor((frame["kind"] == "plus").to_numpy()).long()
    expected = library.score(probs, labels)
    assert scores["test"]["accuracy"]["value"] == pytest.approx(expected.accuracy)
    assert scores["test"]["log_likelihood"]["value"] == pytest.approx(expected.log_likelihood)
    assert list(scores["ood"]) == ["clinic"]


def test_one_class_can_be_evaluated(run, tmp_path):
    frame = table()
    frame[frame["kind"] == "plus"].to_csv(tmp_path / "new.csv", index=False)
    assert felbo("evaluate", run, tmp_path / "new.csv").exit_code == 0


def test_labels_that_were_not_there_in_training(run, tmp_path):
    frame = table()
    frame.loc[0, "kind"] = "neither"
    frame.to_csv(tmp_path / "new.csv", index=False)
    result = felbo("evaluate", run, tmp_path / "new.csv")
    assert result.exit_code == 1
    assert "['neither'] were not there in training" in result.stderr


def test_export(tmp_path):
    run = trained(tmp_path, table().drop(columns="colour"))
    result = felbo("export", run, "--out", tmp_path / "model.pt2")
    assert result.exit_code == 0, result.output
    assert "Columns: a, b, c" in result.stdout
    rows = torch.from_numpy(table(20, seed=3)[["a", "b", "c"]].to_numpy())
    assert rows.isnan().any()
    probs, epistemic = torch.export.load(tmp_path / "model.pt2").module()(rows)
    frame = pd.DataFrame(rows.numpy(), columns=["a", "b", "c"])
    classifier = library.load(run / "model.safetensors")
    assert np.allclose(probs.numpy(), classifier.predict_proba(frame), atol=1e-6)
    uncertainty = classifier.uncertainty(frame, "epistemic")
    assert np.allclose(epistemic.numpy(), uncertainty, atol=1e-6)


def test_categories_cannot_be_exported(run, tmp_path):
    result = felbo("export", run, "--out", tmp_path / "model.pt2")
    assert result.exit_code == 1
    assert "columns of categories" in result.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--threshold", "0.1", "--coverage", "0.5"], "--coverage: without a meaning for a --thr"),
        (["--threshold", "0.1", "--accuracy", "90"], "--accuracy: without a meaning for a --thr"),
        (["--accuracy", "90", "--coverage", "0.5"], "--coverage: without a meaning for a thresh"),
    ],
)
def test_one_threshold_at_a_time(options, words, run, new, tmp_path):
    refused = felbo("predict", run, tmp_path / "new.csv", "--out", tmp_path / "o.csv", *options)
    assert refused.exit_code == 1
    assert words in refused.stderr
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize("command", ["predict", "report", "export"])
def test_an_output_that_is_a_folder_is_refused(command, run, new, tmp_path):
    name = {"predict": "a.csv", "report": "a.html", "export": "a.onnx"}[command]
    (tmp_path / name).mkdir()
    given = [run, tmp_path / "new.csv"] if command == "predict" else [run]
    refused = felbo(command, *given, "--out", tmp_path / name)
    assert refused.exit_code == 1
    assert "is a folder, and cannot be a file of results" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "new.csv"]
