import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import steps

GOLDEN = json.loads(steps.FILE.read_text())


@pytest.mark.parametrize(("model", "objective"), steps.cases())
def test_fifty_float64_steps_are_unchanged(model: str, objective: str) -> None:
    measured = steps.run(model, objective)
    for name, expected in GOLDEN[f"{model} {objective}"].items():
        assert measured[name] == pytest.approx(expected, rel=1e-10, abs=1e-10), name
