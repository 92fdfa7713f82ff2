"""Dry runs: which cells, how long, and nothing computed or written."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from felbo.cli import app
from felbo.cli.plans import duration, spans
from felbo.paper import planning
from felbo.paper.planning import CPU, GPUS, SECONDS_PER_STEP, SHARE_OF_PEAK, plan
from felbo.paper.results import Observation
from felbo.paper.runner import RequestError, reproduce
from felbo.paper.study import Preset, Study
from felbo.paper.workload import Cost, Workload
from felbo.studies.catalogue import STUDIES

COST = Cost(
    steps=100,
    training_flops=6e12,
    evaluation_flops=1e12,
    training_speed=1e10,
    evaluation_speed=0.5e10,
    beside=5.0,
    memory=2e9,
)


def make_study(workload=None, data=()):
    def run(model, seed, settings):
        return [Observation("score", 0.0, 1.0)]

    return Study(
        name="fake-study",
        title="Fake",
        models={"a": 1.0, "b": 3.0},
        presets={"paper": Preset(4, {"epochs": 1})},
        run=run,
        draw=lambda summaries, stem: Path(f"{stem}.png").write_text(""),
        data=data,
        workload=workload,
    )


def workload(model, seed, settings):
    """b is made of two networks of a, of which the first is that of the same seed."""
    files = (f"a-{seed}",) if model == "a" else (f"a-{seed}", f"a-{seed + 1}")
    return Workload(None, None, (1,), 2, 1, 1, files, 1)


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.setattr(planning, "measure", lambda work: COST)


def test_finished_and_pending_cells_are_told_apart(tmp_path):
    reproduce(make_study(), models=["a"], seeds=2, results=tmp_path / "r", runs=tmp_path / "runs")
    (tmp_path / "runs" / "fake_study" / "paper" / "a-0.json").write_text("{")
    found = {each.model: each for each in plan(make_study(), runs=tmp_path / "runs").models}
    assert found["a"].finished == (1,)
    assert found["a"].pending == (0, 2, 3)
    assert found["b"].pending == (0, 1, 2, 3)
    some = plan(make_study(), models=["a"], seeds=3, runs=tmp_path / "runs").models
    assert [(each.model, each.pending) for each in some] == [("a", (0, 2))]


def test_without_a_workload_times_come_from_finished_cells(tmp_path):
    assert plan(make_study(), runs=tmp_path).seconds == {}
    assert plan(make_study(), runs=tmp_path).basis == ""
    reproduce(make_study(), models=["a"], seeds=2, results=tmp_path / "r", runs=tmp_path / "runs")
    for seed, seconds in ((0, 10.0), (1, 30.0)):
        path = tmp_path / "runs" / "fake_study" / "paper" / f"a-{seed}.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "seconds": seconds}))
    found = plan(make_study(), runs=tmp_path / "runs")
    assert {each.model: each.seconds for each in found.models} == {"a": {CPU: 20.0}, "b": {CPU: 60}}
    assert found.seconds == {CPU: 2 * 20.0 + 4 * 60.0}
    assert found.basis == "finished cells"


def test_seconds_of_a_cell_by_device(tmp_path, counted):
    found = {each.model: each for each in plan(make_study(workload), runs=tmp_path).models}
    assert found["b"].seconds[CPU] == pytest.approx(2 * 6e12 / 1e10 + 1e12 / 0.5e10 + 5)
    for name, peak in GPUS.items():
        training = max(6e12 / (SHARE_OF_PEAK * peak), 100 * SECONDS_PER_STEP)
        expected = 2 * training + 1e12 / (SHARE_OF_PEAK * peak) + 5
        assert found["b"].seconds[name] == pytest.approx(expected)
    assert found["a"].memory == 2e9


def test_shared_trainings_count_once_and_kept_ones_not_at_all(tmp_path, counted):
    # b needs a-0 … a-4; the cells of a add none.
    found = plan(make_study(workload), runs=tmp_path)
    assert found.trainings == (5, 0)
    assert found.seconds[CPU] == pytest.approx(5 * 600 + 8 * (200 + 5))
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "a-3").write_text("")
    found = plan(make_study(workload), runs=tmp_path)
    assert found.trainings == (4, 1)
    assert found.seconds[CPU] == pytest.approx(4 * 600 + 8 * 205)


def test_missing_data_are_named_and_stop_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("FELBO_DATA", str(tmp_path / "nothing"))
    found = plan(make_study(data=("cifar10",)), runs=tmp_path)
    assert found.missing == {"cifar10": "felbo data fetch cifar10"}
    assert found.models[0].memory == 60_000 * 5 * 3 * 32 * 32
    assert list(tmp_path.iterdir()) == []


def test_bad_requests_are_refused(tmp_path):
    with pytest.raises(RequestError, match="No preset 'huge'"):
        plan(make_study(), preset="huge", runs=tmp_path)
    with pytest.raises(RequestError, match=r"No model \['c'\]"):
        plan(make_study(), models=["c"], runs=tmp_path)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_can_be_planned_and_nothing_is_written(name, tmp_path, monkeypatch, counted):
    monkeypatch.setenv("FELBO_DATA", str(tmp_path / "nothing"))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["reproduce", name, "--dry-run"])
    assert result.exit_code == 0, result.output
    cells = STUDIES[name].presets["paper"].seeds * len(STUDIES[name].models)
    assert f"Cells to compute: {cells}; finished: 0." in result.output
    assert ("estimates" in result.output) == (STUDIES[name].workload is not None)
    assert ("GPUs are not measured" in result.output) == (STUDIES[name].workload is not None)
    for missing in STUDIES[name].data:
        assert f"felbo data fetch {missing}" in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_real_estimate_of_a_small_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--preset", "smoke", "--models", "MAP fVI,Prior Networks", "--dry-run"]
    result = CliRunner().invoke(app, ["reproduce", "baselines-cifar10", *options])
    assert result.exit_code == 0, result.output
    assert "Networks to train: 2" in result.output
    bad = CliRunner().invoke(app, ["reproduce", "digits", "--models", "nobody", "--dry-run"])
    assert bad.exit_code == 2


def test_pictures_have_no_cells():
    result = CliRunner().invoke(app, ["reproduce", "simplex", "--dry-run"])
    assert "without cells" in result.output


def test_durations_and_spans():
    assert [duration(s) for s in (0.25, 42, 100, 7000, 36_000, 200_000)] == [
        "0.2 s",
        "42 s",
        "1.7 min",
        "1.9 h",
        "10 h",
        "2.3 days",
    ]
    assert spans([]) == ""
    assert spans([3, 0, 1]) == "0–1, 3"
