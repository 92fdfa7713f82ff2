import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import steps

GOLDEN = json.loads(steps.FILE.read_text())


# Fifty steps amplify what float32 rounds differently.
TOLERANCE = {"float64": 1e-10, "float32": 1e-4}


@pytest.mark.parametrize(("model", "objective", "precision"), steps.cases())
def test_fifty_steps_are_unchanged(model: str, objective: str, precision: str) -> None:
    measured, tolerance = steps.run(model, objective, precision), TOLERANCE[precision]
    for name, expected in GOLDEN[steps.key(model, objective, precision)].items():
        assert measured[name] == pytest.approx(expected, rel=tolerance, abs=tolerance), name
