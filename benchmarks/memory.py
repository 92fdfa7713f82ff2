"""Peak memory of a training step, each side in a separate process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F

import felbo
from benchmarks.timing import Row

BATCH, WIDTH, MEMBERS = 128, 16, 10


def step(side: str) -> None:
    """Take two training steps: one ResNet, or an ensemble of ten with the function-space term."""
    torch.manual_seed(0)
    x, y = torch.randn(BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))

    def build() -> torch.nn.Module:
        return felbo.networks.resnet18(10, width=WIDTH)

    model = build() if side == "one" else felbo.Ensemble(build, MEMBERS, low_memory=side == "low")
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(10), num_data=50_000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        if isinstance(model, felbo.StochasticClassifier):
            loss = objective(model, x, y).total
        else:
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def peak_megabytes() -> float:
    """Return the peak resident set size of this process.

    Not ``ru_maxrss``, which a process inherits from its parent.
    """
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found, "peak memory is read from /proc, which this system does not have"
    return int(found.group(1)) / 1024


def measure(side: str) -> float:
    """Run one side in a new process; return its peak memory minus that after importing felbo."""
    command = [sys.executable, "-m", "benchmarks.memory", side, str(torch.get_num_threads())]
    # Make malloc return freed memory to the system at once: what it keeps otherwise depends on the
    # order of allocations, not on the memory that the step needs.
    environment = {
        **os.environ,
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "65536",
    }
    output = subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment
    ).stdout
    return float(json.loads(output.splitlines()[-1]))


def rows() -> Iterator[Row]:
    """Measure peak memory, on systems with /proc."""
    if not Path("/proc/self/status").exists():
        print("skipped: peak memory (no /proc on this system)")
        return
    one, low, plain = (measure(side) for side in ("one", "low", "plain"))
    yield Row(
        f"ensemble of {MEMBERS} ResNets (width {WIDTH}), peak memory with `low_memory=True`",
        "one ResNet",
        "≤ 1.5",
        low / one,
        low / one,
        low / one,
        low,
        one,
        f"{low:.0f} MB against {one:.0f} MB; without `low_memory` {plain:.0f} MB",
        unit="MB",
    )


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[2]))
    # One small convolution first, so that libraries loaded on first use do not count.
    torch.nn.Conv2d(3, 4, 3)(torch.randn(2, 3, 8, 8)).sum().backward()
    before = peak_megabytes()
    step(sys.argv[1])
    print(json.dumps(peak_megabytes() - before))
