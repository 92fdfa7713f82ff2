"""A training with checkpoints, for tests that kill it: ``resume_script.py FOLDER OUT [SECONDS]``."""

import sys
from pathlib import Path

import torch

import felbo
from felbo.training import Checkpoint


def main(folder, out, seconds):
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(120, 2, generator=generator)
    y = (x.sum(1) > 0).long()
    torch.manual_seed(0)
    model = felbo.MCDropout(felbo.networks.mlp(2, (8,), 2), rate=0.2)
    points = felbo.measurement.Elsewhere(generator=torch.Generator().manual_seed(5))
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(2), 100, measurement=points)
    history = felbo.fit(
        model,
        objective,
        (x[:100], y[:100]),
        epochs=30,
        batch_size=8,
        validation=(x[100:], y[100:]),
        patience=12,
        scheduler=lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 30),
        seed=3,
        checkpoint=Checkpoint(folder, seconds=float(seconds)),
        progress=False,
    )
    felbo.save(model, Path(out))
    Path(out).with_suffix(".txt").write_text(repr(history.epochs))


if __name__ == "__main__":
    main(*sys.argv[1:])
