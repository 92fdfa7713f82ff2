"""The runner: interrupted and finished, in one process and in two."""

import csv
import json
from pathlib import Path

import pytest
import torch

from felbo._files import OutputFolderError
from felbo.data import MissingDataError
from felbo.paper.results import Observation, read_summaries
from felbo.paper.runner import collect, reproduce
from felbo.paper.study import Preset, Study


def make_study(log: Path, fail_at=None, data=()) -> Study:
    """Cells that note in a file that they ran, and one that can fail."""

    def run(model, seed, settings):
        if (model, seed) == fail_at:
            raise RuntimeError("power cut")
        with log.open("a") as file:
            file.write(f"{model} {seed}\n")
        return [Observation("score", shift, 10.0 * seed + shift) for shift in (0.0, 1.0)]

    def draw(summaries, stem):
        Path(f"{stem}.png").write_text(f"{len(summaries)} points")

    return Study(
        name="fake-study",
        title="Fake",
        models={"a": 1.0, "b": 2.0},
        presets={"paper": Preset(3, {"epochs": 1}), "smoke": Preset(1, {"epochs": 0})},
        run=run,
        draw=draw,
        data=data,
    )


def lines(log: Path) -> list[str]:
    return sorted(log.read_text().split("\n")[:-1])


EVERY = ["a 0", "a 1", "a 2", "b 0", "b 1", "b 2"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_finished_cells_are_not_run_again(tmp_path, jobs):
    folders = {"results": tmp_path / "results", "runs": tmp_path / "runs"}
    first, second = tmp_path / "first", tmp_path / "second"
    with pytest.raises(RuntimeError, match="power cut"):
        reproduce(make_study(first, fail_at=("a", 1)), **folders)
    kept = {p.stem.replace("-", " ") for p in (tmp_path / "runs").rglob("*.json")}
    assert kept == {"b 0", "a 0", "b 1"}
    assert not (tmp_path / "results").exists()
    outcome = reproduce(make_study(second), jobs=jobs, **folders)
    assert lines(second) == sorted(set(EVERY) - kept)
    assert [(s.model, s.shift, s.mean, s.seeds) for s in outcome.summaries] == [
        ("a", 0.0, 10.0, 3),
        ("a", 1.0, 11.0, 3),
        ("b", 0.0, 10.0, 3),
        ("b", 1.0, 11.0, 3),
    ]


def test_table_raw_rows_and_figure_are_written(tmp_path):
    outcome = reproduce(make_study(tmp_path / "log"), results=tmp_path / "r", runs=tmp_path)
    assert outcome.table == tmp_path / "r" / "fake_study.csv"
    assert outcome.figure.read_text() == "4 points"
    assert [s[:5] for s in read_summaries(outcome.table)] == [s[:5] for s in outcome.summaries]
    with (tmp_path / "r" / "fake_study_raw.csv").open() as file:
        raw = list(csv.DictReader(file))
    assert len(raw) == 12
    assert raw[3] == {
        "experiment": "fake_study",
        "metric": "score",
        "model": "a",
        "shift": "1",
        "seed": "1",
        "value": "11",
    }


def test_more_seeds_add_to_what_is_there(tmp_path):
    folders = {"results": tmp_path / "results", "runs": tmp_path / "runs"}
    reproduce(make_study(tmp_path / "first"), seeds=1, **folders)
    outcome = reproduce(make_study(tmp_path / "second"), seeds=2, models=["b"], **folders)
    assert lines(tmp_path / "first") == ["a 0", "b 0"]
    assert lines(tmp_path / "second") == ["b 1"]
    assert {s.model: s.seeds for s in outcome.summaries} == {"a": 1, "b": 2}


def test_a_smaller_preset_keeps_its_results_apart(tmp_path):
    log = tmp_path / "log"
    outcome = reproduce(make_study(log), preset="smoke", results=tmp_path, runs=tmp_path / "runs")
    assert outcome.table == tmp_path / "smoke" / "fake_study.csv"
    assert lines(log) == ["a 0", "b 0"]


def test_bad_requests_are_refused_before_anything_runs(tmp_path):
    study = make_study(tmp_path / "log")
    with pytest.raises(ValueError, match=r"No model \['c'\] in fake-study; there are \['a', 'b'\]"):
        reproduce(study, models=["a", "c"], runs=tmp_path)
    with pytest.raises(ValueError, match="No preset 'huge'"):
        reproduce(study, preset="huge", runs=tmp_path)
    with pytest.raises(FileNotFoundError, match="No finished cell of fake-study"):
        collect(study, "paper", tmp_path, tmp_path)
    assert not (tmp_path / "log").exists()


@pytest.fixture
def finished(tmp_path):
    """Folders of a study that was run to its end."""
    folders = {"results": tmp_path / "results", "runs": tmp_path / "runs"}
    reproduce(make_study(tmp_path / "first"), **folders)
    return folders


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a-1.json", b""),
        ("a-1.json", b'{"model": "a", "seed"'),
        ("b-2.json", b"\xff\xfe"),
    ],
)
def test_a_damaged_cell_is_named_and_made_anew(tmp_path, finished, capsys, name, content):
    (finished["runs"] / "fake_study" / "paper" / name).write_bytes(content)
    outcome = reproduce(make_study(tmp_path / "second"), **finished)
    assert lines(tmp_path / "second") == [name.removesuffix(".json").replace("-", " ")]
    printed = capsys.readouterr().out
    assert f"{name} is damaged" in printed
    assert "made anew" in printed
    assert {s.seeds for s in outcome.summaries} == {3}


def test_a_copied_cell_is_no_row_of_another_model(tmp_path, finished, capsys):
    home = finished["runs"] / "fake_study" / "paper"
    (home / "b-0.json").write_bytes((home / "a-2.json").read_bytes())
    reproduce(make_study(tmp_path / "second"), **finished)
    assert lines(tmp_path / "second") == ["b 0"]
    assert "b-0.json holds 'a', seed 2" in capsys.readouterr().out


def test_damaged_cells_of_models_that_are_not_asked_for_are_left_out(tmp_path, finished, capsys):
    (finished["runs"] / "fake_study" / "paper" / "b-0.json").write_text("{")
    outcome = reproduce(make_study(tmp_path / "second"), models=["a"], **finished)
    assert not (tmp_path / "second").exists()
    assert "left out" in capsys.readouterr().out
    assert {s.model: s.seeds for s in outcome.summaries} == {"a": 3, "b": 2}


def test_files_with_other_names_are_named_and_left_alone(tmp_path, finished, capsys):
    home = finished["runs"] / "fake_study" / "paper"
    names = ("a-0 (copy).json", "notes.json", "old-model-3.json")
    for name in names:
        (home / name).write_bytes((home / "a-0.json").read_bytes())
    outcome = reproduce(make_study(tmp_path / "second"), **finished)
    printed = capsys.readouterr().out
    assert all(f"{name} is no cell of fake-study: left out" in printed for name in names)
    assert all((home / name).exists() for name in names)
    assert {s.seeds for s in outcome.summaries} == {3}


def test_cells_of_other_code_are_made_anew_with_one_line_for_all(tmp_path, finished, capsys):
    for path in (finished["runs"] / "fake_study" / "paper").glob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "code": "another"}))
    reproduce(make_study(tmp_path / "second"), **finished)
    assert lines(tmp_path / "second") == EVERY
    printed = capsys.readouterr().out
    assert "made by other code of the study, and 5 more files like it: made anew" in printed


def test_left_over_parts_are_removed(tmp_path, finished):
    parts = [
        finished["runs"] / "fake_study" / "paper" / "a-0.1234.part",
        finished["results"] / "fake_study.csv.99-ab.part",
    ]
    for part in parts:
        part.write_text("half")
    (finished["results"] / "other.csv.99-ab.part").write_text("of another study")
    reproduce(make_study(tmp_path / "second"), **finished)
    assert not any(part.exists() for part in parts)
    assert (finished["results"] / "other.csv.99-ab.part").exists()


@pytest.mark.parametrize("fail_at", [None, ("a", 0)])
def test_one_process_gives_the_number_of_threads_back(tmp_path, fail_at):
    seen = []
    study = make_study(tmp_path / "log", fail_at)
    inner = study.run

    def run(model, seed, settings):
        seen.append(torch.get_num_threads())
        return inner(model, seed, settings)

    object.__setattr__(study, "run", run)
    torch.set_num_threads(2)
    try:
        if fail_at:
            with pytest.raises(RuntimeError, match="power cut"):
                reproduce(study, results=tmp_path, runs=tmp_path)
        else:
            reproduce(study, results=tmp_path, runs=tmp_path)
        assert torch.get_num_threads() == 2
        assert set(seen) == {1}
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("folder", ["results", "runs"])
def test_a_folder_that_cannot_be_written_is_found_before_anything_runs(tmp_path, folder):
    (tmp_path / folder).write_text("a file")
    folders = {"results": tmp_path / "results", "runs": tmp_path / "runs"}
    with pytest.raises(OutputFolderError, match=f"{folder} is in the way"):
        reproduce(make_study(tmp_path / "log"), **folders)
    assert not (tmp_path / "log").exists()


def test_missing_data_are_found_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("FELBO_DATA", str(tmp_path / "nothing"))
    monkeypatch.setattr("felbo.data.loading.fetch", offline)
    with pytest.raises(MissingDataError, match="felbo data fetch mnist"):
        reproduce(make_study(tmp_path / "log", data=("mnist",)), results=tmp_path, runs=tmp_path)
    assert not (tmp_path / "log").exists()


def offline(*_, **__):
    raise OSError("no network")


def test_finished_studies_are_summarised_without_their_data(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("FELBO_DATA", str(tmp_path / "nothing"))
    reproduce(make_study(tmp_path / "second", data=("mnist",)), **finished)


def test_a_table_is_never_half_written(tmp_path, finished, monkeypatch):
    before = (finished["results"] / "fake_study.csv").read_bytes()

    def power_cut(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", power_cut)
    with pytest.raises(KeyboardInterrupt):
        reproduce(make_study(tmp_path / "second"), **finished)
    assert (finished["results"] / "fake_study.csv").read_bytes() == before
