"""The script of the page on scaling runs, started as the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import torch

import felbo

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scaling.md"


def test_the_script_trains_and_saves_with_two_processes(tmp_path):
    (script,) = re.findall(
        r"^```python title=\"train.py\"\n(.*?)^```", PAGE.read_text(), re.S | re.M
    )
    path = tmp_path / "train.py"
    path.write_text(script)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "Starting with 2 processes" in ended.stderr + ended.stdout
    x = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    for name, members in (("model", 1), ("ensemble", 10)):
        model = felbo.load(tmp_path / f"{name}.safetensors").eval()
        assert model(x).shape == (members, 2, 2)
        assert model.num_data == 500
