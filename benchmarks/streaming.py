"""Peak memory of `felbo predict` on a table of a million rows, in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks.memory import peak_megabytes
from benchmarks.timing import Row

ROWS, COLUMNS, BLOCK = 1_000_000, 30, 50_000
GOAL = 1000  # megabytes


def write_table(path: Path, rows: int, labelled: bool) -> None:
    """Write a CSV file of random numbers, block by block."""
    generator = np.random.default_rng(0)
    names = [f"x{column}" for column in range(COLUMNS)] + ["y"] * labelled
    with path.open("w") as file:
        file.write(",".join(names) + "\n")
        for start in range(0, rows, BLOCK):
            block = generator.standard_normal((min(BLOCK, rows - start), COLUMNS))
            if labelled:
                block = np.column_stack([block, block[:, 0] > 0])
            np.savetxt(file, block, fmt="%.5g", delimiter=",")


def felbo(*arguments: str) -> None:
    """Run a command of felbo in this process."""
    from felbo.cli import app

    app(list(arguments), standalone_mode=False)


def measure(folder: Path, rows: int) -> tuple[float, float]:
    """Return megabytes above a process that has predicted a few rows, and seconds."""
    write_table(folder / "train.csv", 2000, labelled=True)
    settings = ["--target", "y", "--out", str(folder / "run"), "--epochs", "2"]
    felbo("train", str(folder / "train.csv"), *settings)
    write_table(folder / "few.csv", 100, labelled=False)
    write_table(folder / "many.csv", rows, labelled=False)
    command = [sys.executable, "-m", "benchmarks.streaming", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    output = subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment
    ).stdout
    above, seconds = json.loads(output.splitlines()[-1])
    return float(above), float(seconds)


def rows() -> Iterator[Row]:
    """Measure the memory, on systems with /proc."""
    if not Path("/proc/self/status").exists():
        print("skipped: memory of streaming (no /proc on this system)")
        return
    with tempfile.TemporaryDirectory() as folder:
        above, seconds = measure(Path(folder), ROWS)
    yield Row(
        f"`felbo predict` on {ROWS:,} rows × {COLUMNS} columns, peak memory above the baseline",
        f"{GOAL:,} MB",
        "≤ 1",
        above / GOAL,
        above / GOAL,
        above / GOAL,
        above,
        GOAL,
        f"{above:.0f} MB, {seconds:.0f} s",
        unit="MB",
    )


if __name__ == "__main__":
    base = Path(sys.argv[1])
    felbo("predict", str(base / "run"), str(base / "few.csv"), "--out", str(base / "few-out.csv"))
    before, started = peak_megabytes(), time.perf_counter()
    felbo("predict", str(base / "run"), str(base / "many.csv"), "--out", str(base / "out.csv"))
    print(json.dumps([peak_megabytes() - before, time.perf_counter() - started]))
