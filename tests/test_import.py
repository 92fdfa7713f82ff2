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


def started(code: str) -> tuple[float, set[str]]:
    """Run code in a new process; return its CPU time and the modules that it has loaded."""
    # With bytecode, as every installation has it: torch comes with its own, felbo must not be
    # compiled anew for each measurement.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    after = "import sys, time; print(); print(time.process_time(), *sys.modules)"
    command = [sys.executable, "-c", f"{code}\n{after}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds, *modules = ended.stdout.splitlines()[-1].split()
    return float(seconds), set(modules)


def test_importing_felbo_is_quick_and_leaves_heavy_packages_alone():
    by_torch, by_felbo = [], []
    for _ in range(3):  # a busy machine may disturb one of them
        by_torch.append(started("import torch"))
        by_felbo.append(started("import felbo"))
        (torch, modules_of_torch), (both, modules) = min(by_torch), min(by_felbo)
        if both <= 1.3 * torch:
            break
    assert both <= 1.3 * torch
    assert {*HEAVY} & (modules - modules_of_torch) == set()


def test_help_needs_no_experiments_and_less_than_three_seconds():
    code = "import sys; from felbo.cli import app\ntry: app(['--help'])\nexcept SystemExit: pass"
    seconds, modules = started(code)
    assert seconds < 3.0
    heavy = {"joblib", "lightning_fabric", "matplotlib", "pandas", "pooch", "scipy", "sklearn"}
    assert heavy & modules == set()


def test_every_public_name_is_there():
    assert [name for name in felbo.__all__ if not hasattr(felbo, name)] == []


def test_names_that_are_loaded_on_first_use_are_listed_for_completion():
    assert {"FunctionSpaceClassifier", "load", "save", "export"} <= {*dir(felbo)}
