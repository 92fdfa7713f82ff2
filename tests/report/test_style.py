"""Drawing leaves the caller's matplotlib as it is."""

import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest

from felbo.report.style import new_figure, save

SCRIPT = """
import sys
import matplotlib
matplotlib.use("svg")
before = dict(matplotlib.rcParams)
from felbo.report.style import new_figure, save
figure, axis = new_figure(figsize=(2.0, 2.0))
axis.plot([0, 1])
save(figure, sys.argv[1])
assert matplotlib.get_backend() == "svg", matplotlib.get_backend()
assert dict(matplotlib.rcParams) == before
assert "matplotlib.pyplot" not in sys.modules
"""


def test_backend_and_settings_stay_and_pyplot_is_not_needed(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "figure")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figure.png", "figure.svg"]


def test_the_style_holds_in_the_files(tmp_path):
    figure, axes = new_figure(1, 2, figsize=(3.0, 2.0), squeeze=False, sharey=True)
    assert axes.shape == (1, 2)
    assert figure.dpi == 120
    assert not axes[0][0].spines["top"].get_visible()
    save(figure, str(tmp_path / "a"))
    save(figure, str(tmp_path / "b"))
    for ending in ("png", "svg"):
        first, second = ((tmp_path / f"{name}.{ending}").read_bytes() for name in "ab")
        assert first == second


def test_an_old_figure_stays_until_the_new_one_is_whole(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(b"old")
    figure, _ = new_figure(figsize=(2.0, 2.0))

    def power_cut(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", power_cut)
    with pytest.raises(KeyboardInterrupt):
        save(figure, str(tmp_path / "a"))
    assert (tmp_path / "a.png").read_bytes() == b"old"
    assert matplotlib.rcParams["figure.dpi"] != 120
