"""Cells computed by Ray, by Dask and by processes of this machine, whose workers are killed."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import dask
import pytest
from distributed import LocalCluster
from joblib.externals.loky.process_executor import TerminatedWorkerError
from typer.testing import CliRunner

from felbo.cli import app
from felbo.paper import engines
from felbo.paper.attempts import TRIES, WorkerDiedError, attempt, mark_of
from felbo.paper.cells import cells
from felbo.paper.engines import EngineError
from felbo.paper.results import Observation
from felbo.paper.runner import reproduce
from felbo.paper.study import Preset, Study


@pytest.fixture(scope="module")
def ray():
    """A Ray of two CPUs that is started as a study starts it, where no other one is found."""
    import ray

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.delenv("RAY_ADDRESS", raising=False)
        patch.setenv("RAY_TMPDIR", folder)
        engines._connect_to_ray(ray, 2)
        assert ray.cluster_resources()["CPU"] == 2
        yield ray
        ray.shutdown()


@pytest.fixture
def engine(request, monkeypatch):
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)
    if request.param == "ray":
        request.getfixturevalue("ray")
    return request.param


def make_study(folder: Path, dies=(), times: int = 1) -> Study:
    """Cells that note each attempt, and some whose process is killed at the first ones."""
    driver = os.getpid()

    def run(model, seed, settings):
        if os.getpid() == driver:
            raise AssertionError("computed in the process of the study")
        log = folder / f"{model}{seed}"
        with log.open("a") as file:
            file.write(".")
        if (model, seed) in dies and log.stat().st_size <= times:
            os.kill(os.getpid(), signal.SIGKILL)
        return [Observation("score", shift, 10.0 * seed + shift) for shift in (0.0, 1.0)]

    return Study(
        name="fake-study",
        title="Fake",
        models={"a": 1.0, "b": 2.0},
        presets={"paper": Preset(3, {"epochs": 1})},
        run=run,
        draw=lambda summaries, stem: None,
    )


def attempts(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def run_in(folder: Path, study: Study, engine: str, jobs: int = 2):
    folders = {"results": folder / "results", "runs": folder / "runs"}
    return reproduce(study, jobs=jobs, engine=engine, **folders)


# A cluster takes ten seconds to start.
CLUSTERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("ray", "dask")]


@pytest.mark.parametrize("engine", ["local", *CLUSTERS], indirect=True)
def test_a_killed_worker_changes_no_result(tmp_path, engine, capsys):
    (tmp_path / "log").mkdir()
    outcome = run_in(tmp_path, make_study(tmp_path / "log", dies=[("a", 1)]), engine)
    assert [(s.model, s.shift, s.mean, s.seeds) for s in outcome.summaries] == [
        ("a", 0.0, 10.0, 3),
        ("a", 1.0, 11.0, 3),
        ("b", 0.0, 10.0, 3),
        ("b", 1.0, 11.0, 3),
    ]
    # Other cells that ran on the machine of a killed process may be repeated; all are there.
    count = attempts(tmp_path / "log")
    assert set(count) == {"a0", "a1", "a2", "b0", "b1", "b2"}
    assert count["a1"] == 2
    assert max(count.values()) == 2
    assert "a-1.json took 2 attempts, since its worker died." in capsys.readouterr().out
    assert not list((tmp_path / "runs").rglob("*.part"))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray", "dask"], indirect=True)
def test_a_cell_that_kills_every_worker_ends_the_study(tmp_path, engine):
    (tmp_path / "log").mkdir()
    study = make_study(tmp_path / "log", dies=[("b", 0)], times=99)
    with pytest.raises(WorkerDiedError, match=r"3 workers died while they computed .*b-0\.json"):
        run_in(tmp_path, study, engine)
    assert attempts(tmp_path / "log")["b0"] == TRIES
    # The same command starts with new attempts.
    outcome = run_in(tmp_path, make_study(tmp_path / "log"), engine)
    assert {s.seeds for s in outcome.summaries} == {3}


def test_attempts_are_counted_and_limited(tmp_path, monkeypatch):
    study = make_study(tmp_path)
    (cell,) = cells(study, ["a"], 1, "paper", tmp_path)
    monkeypatch.setattr("felbo.paper.attempts.run_cell", lambda study, cell: None)
    mark = mark_of(cell)
    mark.parent.mkdir(parents=True)
    for died in range(TRIES):
        mark.write_bytes(b"." * died)
        assert attempt(study, cell) == died + 1
        assert not mark.exists()
    mark.write_bytes(b"." * TRIES)
    with pytest.raises(WorkerDiedError, match=r"3 workers died while they computed .*a-0\.json"):
        attempt(study, cell)


def test_an_error_in_a_cell_is_no_death_of_a_worker(tmp_path):
    study = make_study(tmp_path)  # which refuses to be computed in this process
    (cell,) = cells(study, ["a"], 1, "paper", tmp_path)
    for _ in range(TRIES + 1):
        with pytest.raises(AssertionError, match="computed in the process of the study"):
            attempt(study, cell)


def test_processes_that_die_outside_of_cells_are_not_started_forever(tmp_path, monkeypatch):
    class Dying:
        def __init__(self, **_):
            self.rounds = 0

        def __call__(self, work):
            self.rounds += 1
            raise TerminatedWorkerError(f"round {self.rounds}")

    monkeypatch.setattr(engines.joblib, "Parallel", Dying)
    with pytest.raises(WorkerDiedError, match="died 4 times and no cell was finished: round 4"):
        run_in(tmp_path, make_study(tmp_path), "local")


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_an_engine_that_is_not_installed_is_named_before_anything_runs(
    tmp_path, monkeypatch, engine, package
):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: None)
    options = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    result = CliRunner().invoke(app, ["reproduce", "digits", "--engine", engine, *options])
    assert result.exit_code == 1
    assert f"pip install 'felbo[{engine}]'" in result.stderr
    assert not list(tmp_path.iterdir())


def test_an_unknown_engine_is_refused(tmp_path):
    with pytest.raises(EngineError, match=r"No engine 'spark'; there are \['local', 'ray', 'dask'"):
        run_in(tmp_path, make_study(tmp_path), "spark")


def test_workers_that_do_not_share_the_folder_are_found_out(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "attempt", lambda study, cell: 1)
    with pytest.raises(EngineError, match="must see the folder"):
        run_in(tmp_path, make_study(tmp_path), "local", jobs=1)


def test_workers_of_dask_with_several_threads_are_refused(tmp_path):
    settings = {"n_workers": 1, "threads_per_worker": 2, "processes": False}
    with (
        LocalCluster(**settings, dashboard_address=None) as cluster,
        dask.config.set({"scheduler-address": cluster.scheduler_address}),
        pytest.raises(EngineError, match="--nthreads 1"),
    ):
        run_in(tmp_path, make_study(tmp_path), "dask")


def test_a_cluster_of_one_process_is_refused(tmp_path):
    with pytest.raises(EngineError, match="fewer than 2 processes"):
        run_in(tmp_path, make_study(tmp_path), "dask", jobs=1)


@pytest.mark.slow
def test_an_existing_cluster_of_dask_keeps_its_settings(tmp_path):
    (tmp_path / "log").mkdir()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        dask.config.set({"scheduler-address": cluster.scheduler_address}),
    ):
        before = cluster.scheduler.allowed_failures
        run_in(tmp_path, make_study(tmp_path / "log"), "dask")
        assert cluster.scheduler.allowed_failures == before
        assert len(cluster.workers) == 2
