import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from felbo.cli import app

runner = CliRunner()


def run_demo(out, *options):
    result = runner.invoke(app, ["demo", "--out", str(out), *options])
    assert result.exit_code == 0, result.output
    return json.loads((out / "summary.json").read_text("utf-8")), result.output


def test_a_short_demo_writes_picture_and_numbers(tmp_path):
    summary, output = run_demo(tmp_path / "new", "--epochs", "2", "--jobs", "1")
    for ending in ("png", "svg"):
        assert (tmp_path / "new" / f"two_moons.{ending}").stat().st_size > 10_000
    assert (tmp_path / "new" / "two_moons.png").stat().st_size < 400_000
    panels = [(p["model"], p["prior"]) for p in summary["panels"]]
    assert panels == [
        (model, prior)
        for model in ("MAP", "MC Dropout", "Ensemble")
        for prior in ("conventional", "uniform prior", "GP prior", "random-forest prior")
    ]
    for panel in summary["panels"]:
        assert 0.0 <= panel["accuracy"] <= 1.0
        assert 0.5 <= panel["confidence_near"] <= 1.0
        assert 0.5 <= panel["confidence_far"] <= 1.0
        assert panel["cpu_seconds"] > 0
    assert summary["epochs"] == 2
    assert summary["measurement_points"] == 7171
    assert "Ensemble, GP prior" in output
    assert str(Path("new") / "summary.json") in output


def test_no_epochs_is_refused(tmp_path):
    result = runner.invoke(app, ["demo", "--out", str(tmp_path), "--epochs", "0"])
    assert result.exit_code == 2


@pytest.mark.parametrize("option", [["--preset", "smoke"], ["--seeds", "3"], ["--models", "MAP"]])
def test_a_picture_refuses_the_options_of_a_study(option, tmp_path):
    command = ["reproduce", "simplex", "--results", str(tmp_path), *option]
    result = runner.invoke(app, command)
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_reproduce_draws_a_picture(tmp_path):
    result = runner.invoke(app, ["reproduce", "simplex", "--results", str(tmp_path)])
    assert result.exit_code == 0
    assert (tmp_path / "simplex.png").exists()


def test_an_unknown_experiment_is_answered_with_all_names():
    result = runner.invoke(app, ["reproduce", "three-moons"])
    assert result.exit_code == 2
    assert "two-moons-betas" in result.output


@pytest.mark.slow
def test_the_full_demo_keeps_its_promises(tmp_path):
    summary, _ = run_demo(tmp_path)
    far = {(p["model"], p["prior"]): p["confidence_far"] for p in summary["panels"]}
    assert far["MAP", "conventional"] > 0.95
    assert all(far[model, "uniform prior"] < 0.60 for model in ("MAP", "MC Dropout", "Ensemble"))
    assert all(p["accuracy"] > 0.90 for p in summary["panels"])
