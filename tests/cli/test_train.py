"""`felbo train`: what it writes, and what it refuses in words that help."""

import json

import numpy as np
import pandas as pd
import pytest

import felbo as library
from felbo.estimator import fitting
from felbo.workflow.folder import Run, StoredEvaluation

from .runs import FAST, felbo, table, trained


def test_a_run_holds_model_evaluation_and_description(tmp_path):
    run = trained(tmp_path)
    described = json.loads((run / "run.json").read_text())
    assert described["classes"] == ["minus", "plus"]
    assert described["num_data"] == 96
    assert len(described["history"]["loss"]) == 3
    classifier = library.load(run / "model.safetensors")
    assert classifier.feature_names_in_.tolist() == ["a", "b", "c", "colour"]
    scores = json.loads((run / "evaluations" / "held-out.json").read_text())["scores"]
    assert scores["test"]["size"] == 24
    with np.load(run / "evaluations" / "held-out.npz") as arrays:
        right = arrays["test/probs"].argmax(-1) == arrays["labels"]
    assert scores["test"]["accuracy"]["value"] == pytest.approx(100 * right.mean())


def test_settings_that_are_not_given_are_those_of_the_classifier(tmp_path):
    table().to_csv(tmp_path / "data.csv", index=False)
    given = ["--target", "kind", "--out", tmp_path / "run", "--epochs", "1", "--patience", "7"]
    assert felbo("train", tmp_path / "data.csv", *given).exit_code == 0
    classifier = library.load(tmp_path / "run" / "model.safetensors")
    expected = library.FunctionSpaceClassifier(epochs=1, patience=7, random_state=0)
    assert classifier.get_params() == expected.get_params()
    used = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert used["learning_rate"] == expected.learning_rate
    assert used["validation_fraction"] == expected.validation_fraction


def test_the_same_seed_gives_the_same_model(tmp_path):
    weights = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        weights.append((trained(tmp_path / name) / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_settings_come_from_a_file_and_flags_override_it(tmp_path):
    table().to_csv(tmp_path / "data.csv", index=False)
    lines = [
        "[train]",
        f"source = '{tmp_path / 'data.csv'}'",
        "target = 'kind'",
        f"out = '{tmp_path / 'run'}'",
        "epochs = 2",
        "test-fraction = 0.5",
        "drop = ['c', 'colour']",
    ]
    (tmp_path / "train.toml").write_text("\n".join(lines))
    result = felbo("train", "--config", tmp_path / "train.toml", "--epochs", "4", *FAST[2:])
    assert result.exit_code == 0, result.output
    described = json.loads((tmp_path / "run" / "run.json").read_text())
    assert described["num_data"] == 60
    assert len(described["history"]["loss"]) == 4
    assert library.load(tmp_path / "run" / "model.safetensors").n_features_in_ == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[train]\nepoch = 3", "'epoch', which `felbo train` does not have"),
        ("[predict]\nepochs = 3", "no table [train]"),
        ("[train", "is no TOML file"),
        ("[train]\nepochs = true", "'epochs' is neither true nor false, got True"),
        ('[train]\nearly-stopping = "no"', "'early_stopping' is true or false, got 'no'"),
        ("[train]\nbatch-size = 1\nbatch_size = 2", "sets an option twice"),
        ("[train]\nsource = 'x'\nseed = 4294967296", "less than or equal to 4294967295"),
    ],
)
def test_settings_that_cannot_be_read_are_refused(content, words, tmp_path):
    (tmp_path / "train.toml").write_text(content)
    result = felbo("train", "--config", tmp_path / "train.toml")
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.replace("│", " ").split())


def one_class():
    return table().assign(kind="plus")


def continuous():
    return table().assign(kind=np.linspace(0, 1, 120))


def identifiers():
    return table().assign(kind=range(120))


def unlabelled():
    return table().assign(kind=None)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (one_class, "one class only, 'plus'"),
        (continuous, "not whole, such as 0.00840336: felbo predicts classes"),
        (identifiers, "120 different values in 120 rows"),
        (unlabelled, "missing in every row"),
        (lambda: table()[:0], "no rows"),
        (lambda: table()[["kind"]], "no column to learn from"),
        (lambda: table().rename(columns={"kind": "sort"}), "There is no column 'kind'"),
        (lambda: table().assign(a=np.inf), "infinity"),
    ],
    ids=["one class", "continuous", "ids", "unlabelled", "no rows", "alone", "renamed", "infinite"],
)
def test_tables_that_cannot_be_learnt_from(frame, words, tmp_path):
    frame().to_csv(tmp_path / "data.csv", index=False)
    result = felbo("train", tmp_path / "data.csv", "--target", "kind", "--out", tmp_path / "run")
    assert result.exit_code in (1, 3)
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"a,b,a\n1,2,3\n", "the same name: 'a'"),
        (b"a;b;kind\n1;2;x\n", "--separator ';'"),
        ("name,kind\nJosé,x\n".encode("latin-1"), "--encoding cp1252"),
        ("a,kind\n1,x\n".encode("utf-16"), "--encoding cp1252"),
        (b"a,kind\n1,x\n2,y,3,4\n3,x\n", "is not a table"),
    ],
    ids=["empty", "doubled", "semicolons", "latin-1", "utf-16", "ragged"],
)
def test_files_that_cannot_be_read(content, words, tmp_path):
    (tmp_path / "data.csv").write_bytes(content)
    result = felbo("train", tmp_path / "data.csv", "--target", "kind", "--out", tmp_path / "run")
    assert result.exit_code == 1, result.output
    assert words in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.csv"], "no data set of that name; data sets are mnist"),
        (["data.xlsx"], "must end in .csv"),
        (["data.csv"], "Pass --target with one of 'a', 'b', 'c', 'colour', 'kind'"),
        (["."], "a folder of images for each class"),
        (["data.csv", "--target", "kind", "--out", "data.csv/run"], "is in the way"),
        (
            ["data.csv", "--limit", "10", "--network", "resnet18", "--image-size", "64"],
            "--network, --image-size, --limit: without a meaning for the table data.csv",
        ),
    ],
)
def test_requests_that_cannot_be_met(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table().to_csv("data.csv", index=False)
    (tmp_path / "data.xlsx").write_bytes(b"PK")
    result = felbo("train", *arguments)
    assert result.exit_code == 1
    assert words in result.stderr


def test_a_run_is_not_replaced_unless_asked(tmp_path):
    run = trained(tmp_path)
    again = ["train", tmp_path / "train.csv", "--target", "kind", "--out", run, *FAST]
    assert "holds a run already" in felbo(*again).stderr
    assert felbo(*again, "--overwrite").exit_code == 0


@pytest.mark.parametrize("fraction", [0, 0.2])
def test_a_run_that_is_replaced_leaves_nothing(fraction, tmp_path):
    run = trained(tmp_path)
    assert felbo("evaluate", run, tmp_path / "train.csv", "--name", "old").exit_code == 0
    assert felbo("report", run).exit_code == 0
    before = (run / "evaluations" / "held-out.json").read_text()
    again = ["train", tmp_path / "train.csv", "--out", run, *FAST, "--seed", "1", "--overwrite"]
    refused = felbo(*again, "--target", "sort")
    assert refused.exit_code == 1
    assert felbo("report", run, "--evaluation", "old").exit_code == 0
    result = felbo(*again, "--target", "kind", "--test-fraction", fraction)
    assert result.exit_code == 0, result.output
    names = {path.name for path in (run / "evaluations").iterdir()}
    if fraction:
        assert names == {"held-out.json", "held-out.npz"}
        assert (run / "evaluations" / "held-out.json").read_text() != before
    else:
        assert names == set()
        assert "Nothing was held out" in result.stdout
    assert not (run / "report.html").exists()


@pytest.mark.parametrize("last", ["held-out", "run.json"])
def test_a_replacement_that_is_killed_while_it_writes(last, tmp_path, monkeypatch):
    run = trained(tmp_path)
    given = ["train", tmp_path / "train.csv", "--target", "kind", "--out", run, *FAST]
    write = {"held-out": StoredEvaluation.write, "run.json": Run.write}[last]

    def killed(self, folder):
        write(self, folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(StoredEvaluation if last == "held-out" else Run, "write", killed)
        assert felbo(*given, "--overwrite").exit_code == 130
    result = felbo(*given, "--overwrite", "--test-fraction", "0")
    assert result.exit_code == 0, result.output
    assert "Nothing was held out" in result.stdout


def test_what_a_reader_should_know_is_said(tmp_path):
    frame = table().assign(same=1.0)
    frame.loc[:4, "kind"] = None
    frame.to_csv(tmp_path / "data.csv", index=False)
    given = ["--target", "kind", "--out", tmp_path / "run", *FAST]
    result = felbo("train", tmp_path / "data.csv", *given)
    assert "5 rows without a label were left out" in result.stderr
    assert "single value tell nothing: same" in result.stderr
    assert "missing values" in result.stderr


def test_semicolons_and_other_encodings(tmp_path):
    frame = table().replace({"colour": {"red": "größe"}})
    frame.to_csv(tmp_path / "data.csv", index=False, sep=";", encoding="utf-16")
    given = ["--target", "kind", "--out", tmp_path / "run", *FAST]
    options = ["--separator", ";", "--encoding", "utf-16"]
    assert felbo("train", tmp_path / "data.csv", *given, *options).exit_code == 0


def test_decimal_commas_are_noticed_and_read(tmp_path):
    table().to_csv(tmp_path / "data.csv", index=False, sep=";", decimal=",")
    given = ["train", tmp_path / "data.csv", "--target", "kind", "--separator", ";", *FAST]
    refused = felbo(*given, "--out", tmp_path / "run")
    assert refused.exit_code == 1
    assert "'a', 'b', 'c' seem to hold numbers such as" in refused.stderr
    assert felbo(*given, "--decimal", ",", "--out", tmp_path / "run").exit_code == 0
    (tmp_path / "points").mkdir()
    points = library.load(trained(tmp_path / "points") / "model.safetensors")
    commas = library.load(tmp_path / "run" / "model.safetensors")
    rows = table().drop(columns="kind")
    np.testing.assert_array_equal(commas.predict_proba(rows), points.predict_proba(rows))
    given = ["predict", tmp_path / "run", tmp_path / "data.csv", "--out", tmp_path / "out.csv"]
    refused = felbo(*given, "--separator", ";")
    assert "pass --decimal ," in refused.stderr
    assert felbo(*given, "--separator", ";", "--decimal", ",").exit_code == 0
    as_text = ["--decimal", ".", "--separator", ";", "--out", tmp_path / "text", *FAST]
    assert felbo("train", tmp_path / "data.csv", "--target", "kind", *as_text).exit_code == 0
    assert library.load(tmp_path / "text" / "model.safetensors").learner_.table.numbers == []


def test_columns_of_names_are_noted(tmp_path):
    frame = table().assign(name=[f"P{number:03d}" for number in range(120)])
    frame.to_csv(tmp_path / "data.csv", index=False)
    given = ["--target", "kind", "--out", tmp_path / "run", *FAST]
    result = felbo("train", tmp_path / "data.csv", *given)
    assert "tell little about new rows: name. They can be left out with --drop" in result.stderr
    assert "colour" not in result.stderr


def test_npz_and_parquet_train_as_csv(tmp_path):
    frame = table()[["a", "c", "kind"]]
    features = frame[["a", "c"]].to_numpy()
    np.savez(tmp_path / "data.npz", x=features, kind=frame["kind"].to_numpy(dtype=str))
    frame.to_parquet(tmp_path / "data.parquet")
    frame.to_csv(tmp_path / "data.csv", index=False)
    found = []
    for suffix in ("csv", "npz", "parquet"):
        out = tmp_path / suffix
        given = ["train", tmp_path / f"data.{suffix}", "--target", "kind", "--out", out, *FAST]
        assert felbo(*given).exit_code == 0
        found.append(library.load(out / "model.safetensors"))
    csv, npz, parquet = found
    assert npz.feature_names_in_.tolist() == ["x.0", "x.1"]
    new = features[:5]
    expected = csv.predict_proba(pd.DataFrame(new, columns=["a", "c"]))
    assert np.allclose(npz.predict_proba(pd.DataFrame(new, columns=["x.0", "x.1"])), expected)
    assert np.allclose(parquet.predict_proba(pd.DataFrame(new, columns=["a", "c"])), expected)


def test_version_and_help():
    assert felbo("--version").stdout == f"felbo {library.__version__}\n"
    shown = felbo("train", "--help").stdout
    assert "felbo train patients.csv --target diagnosis" in shown
    assert "mc-dropout" in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "map", "--members", "3"], "--members: without a meaning for the model map"),
        (
            ["--no-early-stopping", "--patience", "3", "--validation", "0.3"],
            "--validation, --patience: without a meaning for a training with --no-early-stopping",
        ),
        (
            ["--no-early-stopping", "--calibrate"],
            "--calibrate: without a meaning for a training with --no-early-stopping",
        ),
    ],
)
def test_options_that_the_others_make_void_are_refused(options, words, tmp_path):
    table().to_csv(tmp_path / "data.csv", index=False)
    given = ["train", tmp_path / "data.csv", "--target", "kind", "--out", tmp_path / "run"]
    refused = felbo(*given, *options)
    assert refused.exit_code == 1
    assert words in refused.stderr
    assert not (tmp_path / "run").exists()


def test_calibration_can_be_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "ENOUGH_TO_CALIBRATE", 60)
    for number, (options, calibrated) in enumerate([([], True), (["--no-calibrate"], False)]):
        (tmp_path / str(number)).mkdir()
        run = trained(tmp_path / str(number), table(80), *options)
        model = library.load(run / "model.safetensors")
        assert model.calibrate is calibrated
        assert (model.temperature_ != 1.0) is calibrated
        assert json.loads((run / "run.json").read_text())["settings"]["calibrate"] is calibrated


def test_members_are_draws_of_a_model_that_has_none(tmp_path):
    run = trained(tmp_path, None, "--model", "mean-field", "--members", "3")
    assert library.load(run / "model.safetensors").members == 3


def test_too_few_rows_to_stop_early_are_mentioned(tmp_path):
    run = trained(tmp_path, table(80))
    few = "Too few rows to hold some out for early stopping"
    assert few not in "".join(json.loads((run / "run.json").read_text())["notes"])
    (tmp_path / "few").mkdir()
    run = trained(tmp_path / "few", table(30))
    assert few in "".join(json.loads((run / "run.json").read_text())["notes"])
    (tmp_path / "without").mkdir()
    run = trained(tmp_path / "without", table(30), "--no-early-stopping")
    assert few not in "".join(json.loads((run / "run.json").read_text())["notes"])
