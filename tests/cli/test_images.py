"""`felbo train`, `evaluate`, `predict`, `report` and `export` on a folder of images."""

import json
import signal

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import felbo as library
from felbo.objectives.everywhere import STRENGTH

from .runs import felbo

FAST = ["--epochs", "4", "--members", "2", "--image-size", "12", "--network", "mlp"]


def write_images(folder, count=20, size=14, mode="L"):
    """Bright and dark images, which a perceptron can tell apart."""
    generator = np.random.default_rng(0)
    for name, level in (("bright", 180), ("dark", 40)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            shape = (size, size) if mode == "L" else (size, size, 3)
            pixels = (level + generator.integers(0, 60, shape)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number:02d}.png")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    write_images(folder / "photos")
    out = folder / "run"
    result = felbo("train", folder / "photos", "--out", out, *FAST, "--learning-rate", "0.01")
    assert result.exit_code == 0, result.output
    return out


def test_a_run_of_images(run):
    described = json.loads((run / "run.json").read_text())
    assert described["classes"] == ["bright", "dark"]
    assert described["num_data"] == 32
    assert described["settings"]["strength"] == STRENGTH
    assert described["preparation"]["size"] == 12
    assert len(described["preparation"]["mean"]) == 1
    scores = json.loads((run / "evaluations" / "held-out.json").read_text())
    assert scores["scores"]["test"]["accuracy"]["value"] == 100.0
    example = scores["examples"]["uncertain"][0]
    assert example["file"].split("/")[0] in ("bright", "dark")
    assert example["picture"].startswith("iVBOR")


def test_early_stopping_holds_out_images_and_keeps_the_best_weights(tmp_path):
    photos = write_images(tmp_path / "photos", count=60)
    given = ["train", photos, *FAST, "--epochs", "30", "--learning-rate", "0.5"]
    stopped = felbo(*given, "--out", tmp_path / "run", "--validation", "0.25", "--patience", "2")
    assert stopped.exit_code == 0, stopped.output
    described = json.loads((tmp_path / "run" / "run.json").read_text())
    curve = described["history"]["validation nll"]
    assert described["num_data"] == 72
    assert len(curve) == int(np.argmin(curve)) + 3 < 30
    assert described["settings"]["validation"] == 0.25
    without = felbo(*given, "--out", tmp_path / "all", "--no-early-stopping", "--epochs", "3")
    assert without.exit_code == 0
    described = json.loads((tmp_path / "all" / "run.json").read_text())
    assert described["num_data"] == 96
    assert list(described["history"]) == ["loss", "nll"]


def test_predictions_follow_the_files(run, tmp_path):
    write_images(tmp_path / "new", count=3, mode="RGB")
    result = felbo("predict", run, tmp_path / "new", "--out", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    found = pd.read_csv(tmp_path / "out.csv")
    assert found["file"].tolist()[0] == "bright/00.png"
    assert found["prediction"].tolist() == ["bright"] * 3 + ["dark"] * 3


def test_evaluation_keeps_the_order_of_classes(run, tmp_path):
    write_images(tmp_path / "new", count=3)
    (tmp_path / "new" / "bright").rename(tmp_path / "new" / "z")
    wrong = felbo("evaluate", run, tmp_path / "new", "--name", "new")
    assert "['z'] were not there in training" in wrong.stderr
    write_images(tmp_path / "again", count=3)
    given = ["--name", "new", "--ood", f"other={tmp_path / 'new'}"]
    assert felbo("evaluate", run, tmp_path / "again", *given).exit_code == 0
    scores = json.loads((run / "evaluations" / "new.json").read_text())["scores"]
    assert scores["test"]["accuracy"]["value"] == 100.0
    assert list(scores["ood"]) == ["other"]


def test_a_single_class_is_evaluated_but_not_learnt(run, tmp_path):
    write_images(tmp_path / "new", count=3)
    (tmp_path / "new" / "bright").rename(tmp_path / "bright")
    found = felbo("evaluate", run, tmp_path / "new", "--name", "one")
    assert found.exit_code == 0, found.output
    scores = json.loads((run / "evaluations" / "one.json").read_text())["scores"]
    assert scores["test"]["accuracy"]["value"] == 100.0
    assert felbo("report", run, "--evaluation", "one").exit_code == 0
    refused = felbo("train", tmp_path / "new", "--out", tmp_path / "run", *FAST)
    assert refused.exit_code == 1
    assert "at least two to train; found 'dark' only" in refused.stderr


def test_images_that_were_not_used_are_counted(run, tmp_path):
    photos = write_images(tmp_path / "photos")
    (photos / "bright" / "00.png").rename(photos / "00.png")
    words = "1 beside the folders of the classes and 0 in folders below"
    given = ["train", photos, "--out", tmp_path / "run", *FAST, "--epochs", "1"]
    assert words in felbo(*given).stderr
    assert words in felbo("evaluate", run, photos, "--name", "fewer").stderr


def test_report_and_export(run, tmp_path, monkeypatch):
    monkeypatch.setattr("felbo.saving.graph.STEPS", 2)  # enough here, and quicker to trace
    assert felbo("report", run, "--out", tmp_path / "report.html").exit_code == 0
    assert "data:image/png;base64," in (tmp_path / "report.html").read_text()
    assert felbo("export", run, "--out", tmp_path / "model.pt2").exit_code == 0
    bytes_of_dark = torch.full((1, 1, 12, 12), 60.0)
    probs, _ = torch.export.load(tmp_path / "model.pt2").module()(bytes_of_dark)
    assert probs[0].argmax() == 1
    assert isinstance(library.load(run / "model.safetensors"), library.Ensemble)


def test_a_damaged_image_is_named(run, tmp_path):
    write_images(tmp_path / "new", count=3)
    (tmp_path / "new" / "dark" / "01.png").write_bytes(b"no image")
    result = felbo("predict", run, tmp_path / "new", "--out", tmp_path / "out.csv")
    assert result.exit_code == 1
    assert "dark/01.png is no image" in result.stderr


def test_tables_and_images_are_not_mixed_up(run, tmp_path):
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    result = felbo("predict", run, tmp_path / "data.csv", "--out", tmp_path / "out.csv")
    assert "This run is about images" in result.stderr
    (tmp_path / "empty").mkdir()
    result = felbo("predict", run, tmp_path / "empty", "--out", tmp_path / "out.csv")
    assert "There are no images" in result.stderr


def test_an_interrupted_run_goes_on(run, tmp_path, monkeypatch):
    from felbo.training.resuming import Saver

    photos = write_images(tmp_path / "photos")
    given = ["train", photos, "--out", tmp_path / "run", *FAST, "--learning-rate", "0.01"]
    real = Saver.after_epoch

    def interrupted(saver, last):
        if len(saver.state.history) == 2:
            saver.interrupts.received = signal.SIGTERM
        real(saver, last)

    monkeypatch.setattr(Saver, "after_epoch", interrupted)
    result = felbo(*given)
    assert result.exit_code == 130
    assert "SIGTERM: the training was saved" in result.output
    monkeypatch.undo()
    refused = felbo(*given)
    assert refused.exit_code == 1
    assert "--resume" in refused.output
    result = felbo(*given, "--resume")
    assert result.exit_code == 0, result.output
    files = [folder / "model.safetensors" for folder in (run, tmp_path / "run")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_finished_run_stays_as_it_is(run):
    photos = run.parent / "photos"
    given = ["train", photos, "--out", run, *FAST, "--learning-rate", "0.01", "--resume"]
    found = felbo(*given)
    assert found.exit_code == 0, found.output
    assert "Finished already" in found.stderr
    for options, words in (
        (["--hidden", "9"], "hidden was [50, 50] and is [9]"),
        (["--image-size", "13"], "image_size was 12 and is 13"),
        (["--limit", "10"], "limit was None and is 10"),
        (["--validation", "0.2"], "validation was 0.1 and is 0.2"),
        (["--test-fraction", "0.5"], "test_fraction was 0.2 and is 0.5"),
    ):
        refused = felbo(*given, *options)
        assert refused.exit_code == 1
        assert f"holds another run already: {words}." in refused.stderr


def test_options_of_tables_are_refused(run, tmp_path):
    photos = run.parent / "photos"
    given = ["train", photos, "--out", tmp_path / "run", *FAST]
    refused = felbo(*given, "--target", "y", "--drop", "z")
    assert refused.exit_code == 1
    assert "--target, --drop: without a meaning for the images of" in refused.stderr
    (tmp_path / "train.toml").write_text("[train]\nencoding = 'utf-8'\n")
    refused = felbo(*given, "--config", tmp_path / "train.toml")
    assert "--encoding: without a meaning" in refused.stderr
    assert not (tmp_path / "run").exists()
    given = ["train", "mnist", "--out", tmp_path / "run", "--image-size", "9"]
    refused = felbo(*given, "--test-fraction", "0.1")
    assert "--image-size, --test-fraction: without a meaning for the data set" in refused.stderr
    refused = felbo("evaluate", run, photos, "--decimal", ",")
    assert refused.exit_code == 1
    assert "--decimal: without a meaning" in refused.stderr


def test_an_interrupted_run_is_replaced_if_asked_for(tmp_path):
    photos = write_images(tmp_path / "photos")
    checkpoints = tmp_path / "run" / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "checkpoint-00000000.safetensors").write_bytes(b"old")
    result = felbo("train", photos, "--out", tmp_path / "run", *FAST, "--overwrite")
    assert result.exit_code == 0, result.output
    assert not checkpoints.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--hidden", "9"], "--hidden: without a meaning for the network compact"),
        (
            ["--model", "mc-dropout", "--members", "9"],
            "--members: without a meaning for the model mc-dropout of images",
        ),
    ],
)
def test_options_of_other_models_are_refused(options, words, tmp_path):
    photos = write_images(tmp_path / "photos", count=2)
    refused = felbo("train", photos, "--out", tmp_path / "run", *options)
    assert refused.exit_code == 1
    assert words in refused.stderr
    assert not (tmp_path / "run").exists()


def test_too_few_images_to_stop_early_are_mentioned(run):
    described = json.loads((run / "run.json").read_text())
    assert "Too few images to hold some out for early stopping" in described["notes"][0]


def test_a_limit_that_leaves_a_class_without_images_is_mentioned(tmp_path):
    photos = write_images(tmp_path / "photos")
    result = felbo("train", photos, "--out", tmp_path / "run", *FAST, "--limit", "1")
    assert result.exit_code == 0, result.output
    assert "There was no image to train on of dark: --limit leaves too few." in result.stderr
