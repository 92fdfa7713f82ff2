"""Tables as other programs write them: nothing is read as something else without a word."""

import datetime
import decimal
import json

import numpy as np
import pandas as pd
import pytest

import felbo as library
from felbo.workflow.tabular import far_away

from .runs import FAST, felbo, table, trained


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("trained"))


def train(tmp_path, text, *options, name="t.csv", expected=0):
    path = tmp_path / name
    path.write_bytes(text) if isinstance(text, bytes) else path.write_text(text)
    given = ["--target", "y", "--out", tmp_path / "run", *FAST, *options]
    result = felbo("train", path, *given)
    assert result.exit_code == expected, result.output
    return result


def classes(tmp_path):
    return json.loads((tmp_path / "run" / "run.json").read_text())["classes"]


def lines(labels, rows=60):
    """A column of numbers and labels in turn."""
    values = np.random.default_rng(0).normal(size=rows).round(3)
    return "a,y\n" + "".join(f"{v},{labels[i % len(labels)]}\n" for i, v in enumerate(values))


def test_codes_with_leading_zeros_are_names(tmp_path):
    train(tmp_path, lines(["010", "020", "10"]))
    assert classes(tmp_path) == ["010", "020", "10"]
    # In another file they may all look like numbers.
    (tmp_path / "later.csv").write_text(lines(["10"]))
    result = felbo("evaluate", tmp_path / "run", tmp_path / "later.csv")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(("labels", "expected"), [(["0", "1"], [0, 1]), (["1.0", "2"], [1, 2])])
def test_whole_numbers_are_numbers(tmp_path, labels, expected):
    train(tmp_path, lines(labels))
    assert classes(tmp_path) == expected
    assert felbo("evaluate", tmp_path / "run", tmp_path / "t.csv").exit_code == 0


@pytest.mark.parametrize("word", ["None", "NA", "null"])
def test_a_class_may_be_named_as_missing_values_are(tmp_path, word):
    train(tmp_path, lines(["Mild", word]))
    assert set(classes(tmp_path)) == {"Mild", word}
    result = felbo("predict", tmp_path / "run", tmp_path / "t.csv", "--keep", "y", "--out",
                   tmp_path / "p.csv")  # fmt: skip
    assert result.exit_code == 0
    kept = pd.read_csv(tmp_path / "p.csv", keep_default_na=False)["y"]
    assert set(kept) == {"Mild", word}


def test_rows_without_a_label_are_counted_in_an_evaluation(run, tmp_path):
    frame = table()
    frame.loc[:4, "kind"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = felbo("evaluate", run, tmp_path / "t.csv", "--name", "gaps")
    assert "5 rows without a label were left out" in result.output


def test_rows_with_more_fields_than_names_are_refused(tmp_path):
    rows = "".join(f'"{i}",{i % 7},{"yes" if i % 2 else "no"}\n' for i in range(60))
    result = train(tmp_path, '"a","y"\n' + rows, expected=1)
    assert "more fields than names of columns, 2" in result.output
    train(tmp_path, lines(["u", "v"]).replace("\n", ",\n").replace("a,y,", "a,y"))  # all empty


def test_a_column_without_a_name(tmp_path):
    values = lines(["u", "v"]).splitlines()
    text = "\n".join(f"{i or ''},{line}" for i, line in enumerate(values))
    result = train(tmp_path, text)
    assert "--drop ''" in result.output
    result = felbo("predict", tmp_path / "run", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert result.exit_code == 0, result.output
    assert len(pd.read_csv(tmp_path / "p.csv")) == 60


@pytest.mark.parametrize("name", ["t.csv", "t.TSV"])
def test_tabs(tmp_path, name):
    text = lines(["u", "v"]).replace(",", "\t")
    options = ["--separator", r"\t"] if name == "t.csv" else []
    train(tmp_path, text, *options, name=name)


def test_a_separator_of_two_characters_is_refused(tmp_path):
    result = train(tmp_path, lines(["u", "v"]), "--separator", ";;", expected=1)
    assert "A separator is one character" in result.output


def test_lines_without_a_value_are_rows_of_a_table_of_one_column(tmp_path):
    train(tmp_path, lines(["u", "v"]))
    (tmp_path / "new.csv").write_text("a\n1.0\n\n-1.0\n\n2.0\n")
    result = felbo("predict", tmp_path / "run", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert "Column 'a': 2 rows have no value" in result.output
    assert len(pd.read_csv(tmp_path / "p.csv")) == 5


def test_missing_values_are_mentioned(run, tmp_path):
    (tmp_path / "new.csv").write_text("a,b,c,colour\n,1,1,\n,,1,red\n")
    result = felbo("predict", run, tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    for said in ("'a': 2 rows have no value and count as the median", "'b': 1 row has no value"):
        assert said in result.output
    assert "'colour'" not in result.output  # it was missing in training too


def test_an_evaluation_tells_of_values_that_the_training_did_not_have(run, tmp_path):
    frame = table().assign(colour="violet")
    frame.loc[:1, "a"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = felbo("evaluate", run, tmp_path / "t.csv", "--name", "violet")
    assert (
        "'colour': 120 rows hold values that were not there in training ('violet')" in result.stderr
    )
    assert "'a': 2 rows have no value and count as the median" in result.stderr


def test_a_column_that_is_kept_twice_is_there_once(run, tmp_path):
    table(4).to_csv(tmp_path / "new.csv", index=False)
    options = ["--keep", "kind", "--keep", "kind", "--out", tmp_path / "p.csv"]
    assert felbo("predict", run, tmp_path / "new.csv", *options).exit_code == 0
    assert pd.read_csv(tmp_path / "p.csv").columns.tolist().count("kind") == 1


def test_a_set_from_elsewhere_needs_a_name(run, tmp_path):
    table().to_csv(tmp_path / "t.csv", index=False)
    result = felbo("evaluate", run, tmp_path / "t.csv", "--ood", f"={tmp_path / 't.csv'}")
    assert result.exit_code == 1
    assert "Every set needs a name of its own" in result.stderr


def test_of_many_columns_a_message_lists_some(run, tmp_path):
    (tmp_path / "new.csv").write_text(",".join(f"c{i}" for i in range(2000)) + "\n")
    result = felbo("predict", run, tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert result.stderr.strip().endswith("'c28', 'c29' ….")


def test_kept_columns_are_copied_as_they_are(tmp_path):
    frame = table().assign(number=123456789012 + np.arange(120))
    run = trained(tmp_path, frame)
    options = ["--keep", "number", "--keep", "b", "--out", tmp_path / "p.csv"]
    assert felbo("predict", run, tmp_path / "train.csv", *options).exit_code == 0
    kept = pd.read_csv(tmp_path / "p.csv", dtype=str)
    given = pd.read_csv(tmp_path / "train.csv", dtype=str)
    pd.testing.assert_frame_equal(kept[["number", "b"]], given[["number", "b"]])


def test_whole_numbers_of_parquet_stay_whole_beside_missing_ones(run, tmp_path):
    frame = table(4).assign(id=pd.array([1, 2, None, 4], dtype="Int64"))
    frame.to_parquet(tmp_path / "new.parquet")
    for name in ("p.csv", "p.parquet"):
        options = ["--keep", "id", "--out", tmp_path / name]
        assert felbo("predict", run, tmp_path / "new.parquet", *options).exit_code == 0
    written = pd.read_csv(tmp_path / "p.csv", dtype=str)["id"]
    assert written.fillna("").tolist() == ["1", "2", "", "4"]
    assert pd.read_parquet(tmp_path / "p.parquet")["id"].dropna().tolist() == [1, 2, 4]


def test_a_kept_column_does_not_hide_behind_one_of_ours(run, tmp_path):
    table(4).assign(abstain="x").to_csv(tmp_path / "new.csv", index=False)
    result = felbo("predict", run, tmp_path / "new.csv", "--keep", "abstain")
    assert result.exit_code == 1
    assert "'abstain' have the names of columns of predictions" in result.output


def test_a_threshold_that_nothing_can_exceed_is_refused(tmp_path):
    table().to_csv(tmp_path / "train.csv", index=False)
    run = tmp_path / "run"
    given = ["--target", "kind", "--out", run, "--epochs", "3", "--model", "map"]
    assert felbo("train", tmp_path / "train.csv", *given).exit_code == 0
    options = ["--out", tmp_path / "p.csv", "--abstain-by", "epistemic", "--threshold"]
    result = felbo("predict", run, tmp_path / "train.csv", *options, "0")
    assert result.exit_code == 1
    assert "has no epistemic uncertainty" in result.output
    assert felbo("predict", run, tmp_path / "train.csv", *options, "nan").exit_code == 2


def test_predictions_do_not_replace_the_data(run, tmp_path):
    table(4).to_csv(tmp_path / "new.csv", index=False)
    before = (tmp_path / "new.csv").read_text()
    result = felbo("predict", run, tmp_path / "new.csv", "--out", tmp_path / "new.csv")
    assert result.exit_code == 2
    assert (tmp_path / "new.csv").read_text() == before


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("value", [1e300, np.inf])
def test_a_number_that_is_too_large_is_named(run, tmp_path, value, suffix):
    frame = table(9000)
    frame.loc[8500, "b"] = value
    path = tmp_path / f"new.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    for command in ("predict", "evaluate"):
        out = ["--out", tmp_path / "p.csv"] if command == "predict" else []
        result = felbo(command, run, path, *out)
        assert result.exit_code == 1
        assert "in column 'b', row 8501" in " ".join(result.output.split())


@pytest.mark.parametrize("word", ["?", "-", "12 kg"])
def test_numbers_with_a_few_words_are_mentioned(tmp_path, word):
    values = [word, *map(str, range(59))]
    text = "a,b,y\n" + "".join(
        f"{value},{place % 7},{'uv'[place % 2]}\n" for place, value in enumerate(values)
    )
    result = train(tmp_path, text)
    assert f"Column 'a' holds numbers but for a few values such as {word!r}" in result.stderr
    assert "tell little" not in result.stderr


def test_one_row_without_a_label(tmp_path):
    result = train(tmp_path, lines(["u", "v"]) + "0.5,\n")
    assert "1 row without a label was left out." in result.stderr


@pytest.mark.parametrize(
    "value",
    [
        datetime.date(2024, 5, 31),
        "2024-05-31",
        "2024-05-31T12:00",
        "31.05.2024",
        "5/31/2024 12:00",
        pd.Timestamp(0),
    ],
)
def test_dates_are_refused_unless_left_out(tmp_path, value):
    frame = table().assign(day=value)
    frame.to_parquet(tmp_path / "t.parquet")
    given = ["train", tmp_path / "t.parquet", "--target", "kind", "--out", tmp_path / "r", *FAST]
    result = felbo(*given)
    assert result.exit_code == 1
    assert "column 'day' holds dates" in result.output
    assert felbo(*given, "--drop", "day").exit_code == 0


@pytest.mark.parametrize("value", ["1.2.3", "10/20", "5-31", "2024.5"])
def test_what_only_resembles_dates_is_text(tmp_path, value):
    train(tmp_path, lines([value, "other"]))


def test_columns_that_are_left_out_may_hold_anything(tmp_path):
    text = "a;b;y;extra\n" + "0,5;1;u;\n1,5;2;v;\n" * 30
    options = ["--separator", ";", "--drop", "a", "--drop", "extra"]
    train(tmp_path, text, *options)
    kept = library.load(tmp_path / "run" / "model.safetensors").feature_names_in_
    assert kept.tolist() == ["b"]
    refused = train(tmp_path, text, *options, "--drop", "y", "--overwrite", expected=1)
    assert "'y' is the target" in refused.stderr
    refused = train(tmp_path, text, *options, "--drop", "z", "--overwrite", expected=1)
    assert "There is no column 'z'" in refused.stderr


def test_whole_numbers_beside_missing_ones_are_numbers(tmp_path):
    frame = table(9000)
    frame["few"] = pd.array([None, *range(8999)], dtype="Int64")
    frame["late"] = pd.array([*range(8999), None], dtype="Int64")  # in the second chunk
    frame["truth"] = pd.array([True, None, False] * 3000, dtype="boolean")
    frame.to_parquet(tmp_path / "t.parquet")
    given = ["--target", "kind", "--out", tmp_path / "run", *FAST]
    assert felbo("train", tmp_path / "t.parquet", *given, "--epochs", "1").exit_code == 0
    classifier = library.load(tmp_path / "run" / "model.safetensors")
    names = classifier.feature_names_in_[classifier.learner_.table.categories]
    assert names.tolist() == ["colour", "truth"]


@pytest.mark.parametrize("value", [[1.0, 2.0], {"left": 1}])
def test_nested_values_are_refused(tmp_path, value):
    frame = table().assign(both=[value] * 120)
    frame.to_parquet(tmp_path / "t.parquet")
    result = felbo("train", tmp_path / "t.parquet", "--target", "kind", "--out", tmp_path / "r")
    assert result.exit_code == 1
    assert "column 'both' holds lists" in result.output


def test_large_whole_labels_stay_apart(tmp_path):
    labels = np.resize([2**53, 2**53 + 1], 60)
    np.savez(tmp_path / "t.npz", x=np.arange(60.0), y=labels)
    given = ["--target", "y", "--out", tmp_path / "run", *FAST]
    assert felbo("train", tmp_path / "t.npz", *given).exit_code == 0
    assert classes(tmp_path) == [str(2**53), str(2**53 + 1)]


def test_arrays_that_do_not_belong_to_the_table_are_left_out(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    arrays = {"x": rows, "y": np.resize([0, 1], 60), "note": np.array("made today")}
    np.savez(tmp_path / "t.npz", **arrays, x_test=rows[:5])
    given = ["train", tmp_path / "t.npz", "--target", "y", "--out", tmp_path / "run", *FAST]
    refused = felbo(*given)
    assert refused.exit_code == 1
    assert "array note has shape (); expected [N]" in refused.stderr
    refused = felbo(*given, "--drop", "note")
    assert "Leave out with --drop what does not belong to the table" in refused.stderr
    assert felbo(*given, "--drop", "note", "--drop", "x_test").exit_code == 0
    out = ["--out", tmp_path / "p.csv"]
    assert felbo("predict", tmp_path / "run", tmp_path / "t.npz", *out).exit_code == 0
    assert len(pd.read_csv(tmp_path / "p.csv")) == 60


def test_decimals_and_bytes(tmp_path):
    frame = table().assign(price=[decimal.Decimal(i) for i in range(120)])
    frame.to_parquet(tmp_path / "t.parquet")
    given = ["--target", "kind", "--out", tmp_path / "r", *FAST]
    assert felbo("train", tmp_path / "t.parquet", *given).exit_code == 0
    table_ = library.load(tmp_path / "r" / "model.safetensors").learner_.table
    assert table_.categories == [3]  # the colour only
    np.savez(tmp_path / "t.npz", x=frame[["a", "c"]], kind=frame["kind"].to_numpy(dtype="S"))
    assert felbo("train", tmp_path / "t.npz", *given, "--overwrite").exit_code == 0
    assert json.loads((tmp_path / "r" / "run.json").read_text())["classes"] == ["minus", "plus"]


def test_settings_that_cannot_be(tmp_path):
    result = train(tmp_path, lines(["u", "v"]), "--learning-rate", "-1", expected=1)
    assert "learning_rate must be a positive number" in result.output


def test_lists_and_single_values_in_toml(tmp_path):
    (tmp_path / "c.toml").write_text('[train]\nhidden = [6, 5]\ndrop = "b"\n')
    table().to_csv(tmp_path / "t.csv", index=False)
    given = ["--target", "kind", "--out", tmp_path / "run", "--config", tmp_path / "c.toml"]
    result = felbo("train", tmp_path / "t.csv", *given, "--epochs", "2", "--members", "2")
    assert result.exit_code == 0, result.output
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert (settings["hidden"], settings["drop"]) == ([6, 5], ["b"])


def test_rows_from_elsewhere_are_moved_by_deviations_of_the_training():
    frame, numbers = table(), ["a", "b", "c"]
    classifier = library.FunctionSpaceClassifier(epochs=1, members=2, random_state=0)
    classifier.fit(frame.drop(columns="kind"), frame["kind"])
    one = frame.drop(columns="kind").iloc[[1]]
    deviations = frame[numbers].fillna(frame[numbers].median()).std(ddof=0)
    moved = far_away(classifier, one)
    for name, sign in (("up", 1), ("down", -1)):
        expected = one[numbers] + sign * 5 * deviations
        assert np.allclose(moved[f"5 deviations {name}"][numbers], expected)


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_new_rows_with_more_fields_than_names_are_refused(command, run, tmp_path):
    lines = table(5).to_csv(index=False).splitlines()
    lines[3] = "0.1,0.2,0.3,0.4,red,plus"
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    out = ["--out", tmp_path / "p.csv"] if command == "predict" else []
    refused = felbo(command, run, tmp_path / "new.csv", *out)
    assert refused.exit_code == 1
    assert "Expected 5 fields in line 4, saw 6" in refused.stderr
