"""Peak memory of a long training, in a process of its own."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile

import torch

import felbo
from felbo.training import Checkpoint

BATCHES = 100  # of an epoch
FIRST = 10  # epochs after which the memory is looked at for the first time


def soak(epochs: int) -> tuple[float, float]:
    """Return the peak memory after 1,000 steps and after all of them, in MiB."""
    command = [sys.executable, "-m", "benchmarks.torture.soak", str(epochs)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    first, last = map(float, printed.split())
    return first, last


def _train(epochs: int) -> list[float]:
    """Train with checkpoints and validation; return the peak memory after each epoch."""
    torch.set_num_threads(1)
    felbo.seed_everything(0)
    x = torch.randn(BATCHES * 8, 2)
    y = (x.sum(1) > 0).long()
    model = felbo.Ensemble(lambda: felbo.networks.mlp(2, (16,), 2), members=3)
    points = felbo.measurement.Elsewhere()
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(2), len(x), measurement=points)
    peaks: list[float] = []

    def look(_: object) -> None:
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)

    with tempfile.TemporaryDirectory() as folder:
        felbo.fit(
            model,
            objective,
            (x, y),
            epochs=epochs,
            batch_size=8,
            validation=(x[:100], y[:100]),
            checkpoint=Checkpoint(folder, seconds=0.1),
            progress=False,
            on_epoch=look,
        )
    return peaks


if __name__ == "__main__":
    found = _train(int(sys.argv[1]))
    print(found[min(FIRST, len(found)) - 1], found[-1])
