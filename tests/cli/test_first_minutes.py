"""Train, predict and report on a real table, as the page on the command line begins."""

import resource
import subprocess
import sys

import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

FELBO = [sys.executable, "-c", "from felbo.cli import app; app()"]


def cpu_seconds():
    """Seconds of all processes that were started: others on this machine do not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
def test_three_commands_on_breast_cancer_take_less_than_two_minutes(tmp_path):
    data = load_breast_cancer(as_frame=True)
    frame = data.frame.assign(target=[data.target_names[label] for label in data.target])
    frame.to_csv(tmp_path / "cancer.csv", index=False)
    commands = [
        ["train", "cancer.csv", "--target", "target", "--out", "run"],
        ["predict", "run", "cancer.csv", "--out", "predictions.csv"],
        ["report", "run"],
    ]
    before = cpu_seconds()
    for command in commands:
        subprocess.run([*FELBO, *command], cwd=tmp_path, check=True, capture_output=True)
    assert cpu_seconds() - before < 120
    found = pd.read_csv(tmp_path / "predictions.csv")
    right = found["prediction"] == frame["target"]
    assert right.mean() > 0.95
    # Mistakes are rarer where it does not abstain.
    assert right[~found["abstain"]].mean() > right[found["abstain"]].mean()
    assert (tmp_path / "run" / "report.html").stat().st_size > 10**6
