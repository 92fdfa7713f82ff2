"""The rotated-MNIST study in two processes, against a plain script with the same cells."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import felbo
from benchmarks.fitting import newton_loop
from benchmarks.timing import Row
from felbo.paper import rotated_mnist
from felbo.paper.runner import reproduce
from felbo.paper.study import Preset

PAPER = rotated_mnist.STUDY.presets["paper"]
MODELS = ("MAP", "MAP fVI", "MC Dropout", "MC Dropout fVI", "Ensemble", "Ensemble fVI")


class Network(nn.Module):
    """The perceptron in plain PyTorch."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.layers = nn.ModuleList([nn.Linear(784, 50), nn.Linear(50, 50), nn.Linear(50, 10)])

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[B, 10]``."""
        x = x.flatten(1)
        for index, layer in enumerate(self.layers):
            x = layer(F.dropout(x, self.rate) if index and self.rate else x)
            x = F.relu(x) if index < 2 else x
        return x


def plain_loss(logits: Tensor, y: Tensor, fvi: bool) -> Tensor:
    """Return the loss of the paper, written with autograd and a plain Newton loop."""
    log_probs = logits.log_softmax(-1)
    nll = F.nll_loss(log_probs.flatten(0, 1), y.repeat(len(logits)))
    if not fvi:
        return nll
    probs = (1 - 1e-4) * log_probs.exp() + 1e-5
    with torch.no_grad():
        if len(probs) == 1:
            z = torch.full((probs.shape[1],), 60_000.0)
        else:
            z = newton_loop(probs, 100)[0].float()
        alpha = z.unsqueeze(-1) * probs.mean(0)
    posterior = torch.distributions.Dirichlet(alpha, validate_args=False)
    prior = torch.distributions.Dirichlet(torch.ones(10), validate_args=False)
    return nll + (posterior.log_prob(probs) - prior.log_prob(probs)).mean() / len(y)


def plain_cell(name: str, epochs: int, angles: Sequence[int]) -> None:
    """Train and evaluate one cell with the usual DataLoader and a loop over members."""
    train, test = felbo.data.load("mnist", "train"), felbo.data.load("mnist", "test")
    x = train.images.float() / 127.5 - 1
    members = 10 if name.startswith("Ensemble") else 1
    rate = 0.2 if name.startswith("MC") else 0.0
    networks = [Network(rate) for _ in range(members)]
    optimizers = [torch.optim.Adam(network.parameters(), lr=1e-3) for network in networks]
    loader = DataLoader(TensorDataset(x, train.labels), batch_size=256, shuffle=True)
    for _ in range(epochs):
        for batch, y in loader:
            for optimizer in optimizers:
                optimizer.zero_grad()
            logits = torch.stack([network(batch) for network in networks])
            plain_loss(logits, y, "fVI" in name).backward()
            for optimizer in optimizers:
                optimizer.step()
    images = test.images.float() / 127.5 - 1
    repeats = 10 if rate else 1
    with torch.no_grad():
        for angle in angles:
            rotated = felbo.data.rotate(images, angle, fill=-1.0)
            data = DataLoader(TensorDataset(rotated, test.labels), batch_size=256)
            parts = [
                torch.stack([n(batch) for n in networks for _ in range(repeats)])
                .softmax(-1)
                .mean(0)
                for batch, _ in data
            ]
            felbo.score(torch.cat(parts), test.labels)


def rows() -> Iterator[Row]:
    """Measure a shortened study; needs the MNIST files."""
    yield from _compared(3, (0, 60, 120), "one seed and three epochs in place of ten and thirty")


def whole_rows() -> Iterator[Row]:
    """Measure the study with all epochs and angles, for one seed."""
    settings, note = PAPER.settings, "all epochs and angles, one seed in place of ten"
    yield from _compared(settings["epochs"], settings["angles"], note)


def _compared(epochs: int, angles: Sequence[int], note: str) -> Iterator[Row]:
    try:
        felbo.data.load("mnist", "test", download=False)
    except FileNotFoundError as error:
        print(f"skipped: rotated MNIST study ({error})")
        return
    settings = {**PAPER.settings, "epochs": epochs, "angles": tuple(angles)}
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        reproduce(
            replace(rotated_mnist.STUDY, presets={"bench": Preset(1, settings)}),
            preset="bench",
            models=list(MODELS),
            jobs=2,
            results=Path(folder) / "results",
            runs=Path(folder) / "runs",
        )
        ours = time.perf_counter() - start
    start = time.perf_counter()
    for name in MODELS:
        plain_cell(name, epochs, angles)
    theirs = time.perf_counter() - start
    yield Row(
        "rotated MNIST, the six models' cells, with `--jobs 2`",
        "the same cells one after another by a plain PyTorch script",
        "≥ 2",
        theirs / ours,
        theirs / ours,
        theirs / ours,
        ours,
        theirs,
        f"{note}; start of the processes included",
    )
