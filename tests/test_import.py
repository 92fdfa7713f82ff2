"""`import felbo` costs little more than `import torch`, and `felbo --help` is quick."""

import os
import subprocess
import sys

import felbo

# Each of these takes a tenth of torch's time or more, and most users of a room need none of them.
HEAVY = (
    "joblib",
    "lightning_fabric",
    "matplotlib",
    "pandas",
    "plotly",
    "pooch",
    "pytorch_lightning",
    "requests",
    "rich",
    "scipy",
    "sklearn",
    "torch._dynamo",
    "torchmetrics",
    "typer",
)


def run(code: str) -> str:
    # With bytecode, as every installation has it: torch comes with its own, felbo must not be
    # compiled anew for each measurement.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return ended.stdout


def cpu_seconds(code: str) -> float:
    return float(run(f"{code}\nimport time; print(time.process_time())").splitlines()[-1])


def loaded_by(code: str) -> set[str]:
    return set(run(f"{code}\nimport sys; print(*sys.modules)").split())


def test_importing_felbo_leaves_heavy_packages_alone():
    by_torch = loaded_by("import torch")
    assert {*HEAVY} & (loaded_by("import felbo") - by_torch) == set()


def test_importing_felbo_takes_at_most_1_3_times_as_long_as_torch():
    torch, both = (
        min(times)
        for times in zip(
            *((cpu_seconds("import torch"), cpu_seconds("import felbo")) for _ in range(3)),
            strict=True,
        )
    )
    assert both <= 1.3 * torch


def test_help_needs_no_experiments_and_less_than_three_seconds():
    code = "import sys; from felbo.cli import app\ntry: app(['--help'])\nexcept SystemExit: pass"
    assert cpu_seconds(code) < 3.0
    heavy = {"joblib", "lightning_fabric", "matplotlib", "pandas", "pooch", "scipy", "sklearn"}
    assert heavy & loaded_by(code) == set()


def test_every_public_name_is_there():
    assert [name for name in felbo.__all__ if not hasattr(felbo, name)] == []
