"""A training in several processes that is killed again and again: ``python killed.py FOLDER``."""

import sys
from pathlib import Path

import torch

import felbo
from felbo.training import Checkpoint

try:
    from . import cases
except ImportError:  # run as a script
    import cases


def main(folder):
    fabric = cases.launched()
    felbo.seed_everything(0)
    weights = cases.trained(
        felbo.MCDropout(cases.network(), rate=0.3),
        fabric,
        cases.elbo(measurement=felbo.measurement.Box()),
        epochs=150,
        checkpoint=Checkpoint(folder / "checkpoints", seconds=0.0),
    )["weights"]
    torch.save(weights, folder / f"{fabric.global_rank}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
