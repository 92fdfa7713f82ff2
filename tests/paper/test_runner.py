"""The runner: interrupted and finished, in one process and in two."""

import csv
from pathlib import Path

import pytest

from felbo.paper.results import Observation, read_summaries
from felbo.paper.runner import collect, reproduce
from felbo.paper.study import Preset, Study


def make_study(log: Path, fail_at=None) -> Study:
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
