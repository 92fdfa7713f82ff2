"""`felbo train --resume` on a table: killed at any instant, it ends with the same files."""

import json
import multiprocessing
import random
import shutil
import signal
import time

import pytest

from felbo.estimator import fitting
from felbo.training.resuming import Saver

from .runs import felbo, table

# Several splits, in each of which early stopping ends the search.
OPTIONS = ["--epochs", "25", "--members", "2", "--hidden", "8", "--patience", "4"]
OPTIONS += ["--learning-rate", "0.05", "--strength", "0.03", "--target", "kind"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The table, and a run that was not interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    table().to_csv(folder / "data.csv", index=False)
    assert felbo("train", folder / "data.csv", *OPTIONS, "--out", folder / "whole").exit_code == 0
    return folder


@pytest.fixture
def command(folder):
    return ["train", folder / "data.csv", *OPTIONS]


def result(run):
    """The bytes of the model, and everything that was computed; not how long it took."""
    described = json.loads((run / "run.json").read_text())
    described.pop("seconds")
    scores = (run / "evaluations" / "held-out.json").read_text()
    return (run / "model.safetensors").read_bytes(), described, scores


@pytest.fixture
def whole(folder, tmp_path):
    shutil.copytree(folder / "whole", tmp_path / "whole")
    history = json.loads((tmp_path / "whole" / "run.json").read_text())["history"]
    assert len(history["loss"]) < len(history["validation"]) < 25
    return result(tmp_path / "whole")


def train(command):
    """What the processes do that are killed."""
    fitting.SECONDS = 0.02
    raise SystemExit(felbo(*command).exit_code)


def test_a_run_that_is_killed_at_any_instant(command, whole, tmp_path):
    instants = random.Random(time.time())
    waits = [instants.uniform(0, 1.5) for _ in range(6)]
    # Forked, since a new interpreter would take longer to import torch than to train.
    context = multiprocessing.get_context("fork")
    given = [*command, "--out", tmp_path / "run", "--resume"]
    for wait in (*waits, None):
        process = context.Process(target=train, args=(given,))
        process.start()
        process.join(wait)
        process.kill()
        process.join()
        if process.exitcode == 0:  # it ended before it was killed
            break
    assert process.exitcode == 0
    assert result(tmp_path / "run") == whole, waits
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize(("part", "epochs"), [("split-0", 3), ("split-2", 9), ("all", 9)])
def test_a_signal_in_any_of_the_trainings(part, epochs, command, whole, tmp_path, monkeypatch):
    real = Saver.after_step

    def signalled(saver):
        if saver.folder.path.name == part and len(saver.state.history) == epochs:
            saver.interrupts.received = signal.SIGTERM
        real(saver)

    given = [*command, "--out", tmp_path / "run"]
    with monkeypatch.context() as patched:
        patched.setattr(Saver, "after_step", signalled)
        stopped = felbo(*given)
    assert stopped.exit_code == 130
    assert f"SIGTERM: the training was saved to {tmp_path}/run/checkpoints/{part}" in stopped.output
    assert "Go on with --resume" in felbo(*given).output
    resumed = felbo(*given, "--resume")
    assert resumed.exit_code == 0
    assert "Going on with the training in" in resumed.output
    assert result(tmp_path / "run") == whole


def test_another_table_or_setting_is_refused(command, tmp_path, monkeypatch):
    given = [*command, "--out", tmp_path / "run", "--resume"]
    with monkeypatch.context() as patched:
        patched.setattr(Saver, "after_step", interrupted)
        felbo(*given)
    assert "items in 5 batches" in felbo(*given, "--batch-size", "16").output
    assert "seed was" in felbo(*given, "--seed", "1").output
    assert "weights was" in felbo(*given, "--hidden", "9").output
    assert "lr=0.05" in felbo(*given, "--learning-rate", "0.01").output
    table().assign(c=table()["c"] ** 2).to_csv(tmp_path / "data.csv", index=False)
    assert "data was" in felbo("train", tmp_path / "data.csv", *given[2:]).output


def interrupted(saver):
    raise KeyboardInterrupt


def test_a_run_that_replaces_another_one_goes_on(command, whole, tmp_path, monkeypatch):
    given = [*command, "--out", tmp_path / "whole"]
    with monkeypatch.context() as patched:
        patched.setattr(Saver, "after_step", interrupted)
        felbo(*given, "--overwrite")
    assert "Go on with --resume" in felbo(*given).output
    assert felbo(*given, "--resume").exit_code == 0
    assert result(tmp_path / "whole") == whole


def test_a_finished_run_stays_as_it_is(command, whole, tmp_path):
    given = [*command, "--out", tmp_path / "whole"]
    before = (tmp_path / "whole" / "run.json").read_bytes()
    found = felbo(*given, "--resume")
    assert found.exit_code == 0, found.output
    assert "Finished already" in found.stderr
    assert "held-out: 24 items" in found.stdout
    assert "holds a run already" in felbo(*given).stderr
    table().to_csv(tmp_path / "other.csv", index=False)
    for options, words in (
        (["--batch-size", "16"], "batch_size was 32 and is 16"),
        (["--hidden", "9"], "hidden was [8] and is [9]"),
        (["--seed", "1"], "seed was 0 and is 1"),
        (["--drop", "c"], "drop was [] and is ['c']"),
        (["--test-fraction", "0"], "test_fraction was 0.2 and is 0.0"),
        (["--target", "colour"], "target was 'kind' and is 'colour'"),
    ):
        refused = felbo(*given, "--resume", *options)
        assert refused.exit_code == 1
        assert f"holds another run already: {words}." in refused.stderr
        assert "Finished already" not in refused.stderr
    other = ["train", tmp_path / "other.csv", *given[2:], "--resume"]
    assert "source was" in felbo(*other).stderr
    assert (tmp_path / "whole" / "run.json").read_bytes() == before
