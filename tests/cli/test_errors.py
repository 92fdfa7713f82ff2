"""What a user can put right ends in a message and an exit code, not in a traceback."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from felbo.cli import app
from felbo.data import CorruptDataError, DownloadError, MissingDataError
from felbo.training import TrainingInterrupted

from .runs import felbo

FELBO = [sys.executable, "-c", "from felbo.cli import app; app()"]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_missing_data_are_one_message(tmp_path, monkeypatch, jobs):
    # A file where the data should be: nothing can be downloaded either, and no network is asked.
    (tmp_path / "data").write_text("")
    monkeypatch.setenv("FELBO_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    ended = felbo("reproduce", "rotated-mnist", "--preset", "smoke", "--jobs", jobs)
    assert ended.exit_code == 1
    assert "Traceback" not in ended.output
    assert "felbo data fetch mnist" in ended.stderr
    assert len(ended.stderr.splitlines()) < 5
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "error",
    [
        MissingDataError("MNIST [train] is not here. Fetch it."),
        DownloadError("MNIST [train] is not here. Fetch it."),
        CorruptDataError("MNIST [train]", expected="this", came="that", remedy="Fetch it."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_the_data_end_any_command(error, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("felbo.paper.reproduce", fail)
    result = CliRunner().invoke(app, ["reproduce", "digits"])
    assert result.exit_code == 1
    assert result.stderr.strip() == str(error)


@pytest.mark.parametrize(
    "command",
    [["demo", "--out"], ["reproduce", "simplex", "--results"], ["reproduce", "digits", "--runs"]],
)
def test_a_folder_that_cannot_be_written_is_one_message(command, tmp_path):
    (tmp_path / "taken").write_text("")
    result = CliRunner().invoke(app, [*command, str(tmp_path / "taken")])
    assert result.exit_code == 1
    assert "is in the way" in result.stderr
    assert isinstance(result.exception, SystemExit)


def test_what_the_system_refuses_is_no_defect(monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device", "results/table.csv")

    monkeypatch.setattr("felbo.paper.reproduce", fail)
    result = CliRunner().invoke(app, ["reproduce", "digits"])
    assert result.exit_code == 1
    assert result.stderr.startswith("[Errno 28] No space left on device: 'results/table.csv'")
    assert isinstance(
        CliRunner().invoke(app, ["--debug", "reproduce", "digits"]).exception, OSError
    )


def test_a_defect_shows_its_traceback_when_asked_for(monkeypatch):
    def fail(*_, **__):
        raise ValueError("a defect")

    monkeypatch.setattr("felbo.paper.reproduce", fail)
    result = CliRunner().invoke(app, ["--debug", "reproduce", "digits"])
    assert isinstance(result.exception, ValueError)
    result = CliRunner().invoke(app, ["reproduce", "digits"])
    assert result.exit_code == 3
    assert result.stderr.startswith("ValueError: a defect\n`felbo --debug")


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--preset", "huge"], "No preset 'huge'"), (["--models", "Magic"], "No model")],
)
def test_a_request_that_a_study_cannot_meet_is_an_error_of_usage(options, message, tmp_path):
    folders = ["--results", str(tmp_path), "--runs", str(tmp_path)]
    result = CliRunner().invoke(app, ["reproduce", "digits", *options, *folders])
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("flag", [None, "bf16-mixed"])
def test_an_interrupted_experiment_goes_on_by_itself(flag, monkeypatch):
    def interrupt(*_, **__):
        raise TrainingInterrupted("SIGTERM: saved.", Path("checkpoint"))

    monkeypatch.setattr("felbo.paper.reproduce", interrupt)
    options = ["--precision", flag] if flag else []
    ended = CliRunner().invoke(app, ["reproduce", "corrupted-cifar10", *options])
    assert ended.exit_code == 130
    assert "SIGTERM: saved." in ended.output
    assert "--resume" not in ended.output


def test_an_experiment_without_a_precision_refuses_one():
    ended = CliRunner().invoke(app, ["reproduce", "hypercube", "--precision", "bf16-mixed"])
    assert ended.exit_code == 2
    assert "has no setting 'precision'" in ended.output
