"""Kill trainings and damage files; print how often felbo survived or refused.

``python -m benchmarks.torture --kills 200 --mutations 1000``. A kill is survived if the resumed
training ends with the weights and the history of one that was not interrupted, bit for bit. A
damaged file is handled if reading it raises a ``FelboError`` or gives what the whole file gives;
formats without checksums may also give other content.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image

import felbo
from felbo.evaluation import Prediction
from felbo.training import Checkpoint
from felbo.workflow.images import read_image
from felbo.workflow.tables import TableFile


def train(folder: Path, out: Path, seconds: float) -> None:
    """Train a small model with checkpoints, and save it."""
    felbo.seed_everything(0)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(120, 2, generator=generator)
    y = (x.sum(1) > 0).long()
    points = felbo.measurement.Elsewhere(generator=generator)
    model = felbo.MCDropout(felbo.networks.mlp(2, (8,), 2), rate=0.2)
    history = felbo.fit(
        model,
        felbo.FunctionSpaceELBO(felbo.UniformPrior(2), 100, measurement=points),
        (x[:100], y[:100]),
        epochs=20,
        batch_size=8,
        validation=(x[100:], y[100:]),
        patience=9,
        seed=3,
        checkpoint=Checkpoint(folder, seconds),
        progress=False,
    )
    felbo.save(model, out)
    out.with_suffix(".txt").write_text(repr(history.epochs))


def ended(folder: Path, waits: list[float], seconds: float) -> tuple[bytes, str]:
    """Kill a training after each wait, let the next one end, and return its files."""
    folder.mkdir()
    out = folder / "model"
    context = multiprocessing.get_context("fork")
    for wait in (*waits, None):
        process = context.Process(target=train, args=(folder / "checkpoints", out, seconds))
        process.start()
        process.join(wait)
        process.kill()
        process.join()
    return out.read_bytes(), out.with_suffix(".txt").read_text()


def kills(count: int, folder: Path, source: random.Random) -> tuple[int, int]:
    """Return survived and tried kills."""
    started = time.monotonic()
    whole = ended(folder / "whole", [], 1e9)
    longest = 0.8 * (time.monotonic() - started)
    survived = tried = 0
    while tried < count:
        waits = [source.uniform(0, longest) for _ in range(4)]
        same = ended(folder / f"{tried}", waits, source.choice([0.0, 0.05, 1e9])) == whole
        tried += len(waits)
        survived += same * len(waits)
    return survived, tried


def damaged(content: bytes, source: random.Random) -> bytes:
    """Cut a file, flip a bit, or overwrite some bytes."""
    kind, place = source.randrange(3), source.randrange(len(content))
    if kind == 0:
        return content[:place]
    if kind == 1:
        return (
            content[:place]
            + bytes([content[place] ^ 1 << source.randrange(8)])
            + content[place + 1 :]
        )
    return content[:place] + source.randbytes(8) + content[place + 8 :]


def mutations(
    count: int, path: Path, read: Callable[[Path], object], source: random.Random, exact: bool
) -> tuple[int, int, int, int]:
    """Return mutations that were refused, read as before, read as something else, and failures.

    What is read as something else is a failure if the format has checksums. Failures are printed.

    Args:
        count: number of mutations.
        path: of the file.
        read: returns what the file holds, to be compared.
        source: of the mutations.
        exact: whether the format has checksums, so that no other content may be read.
    """
    content, expected = path.read_bytes(), read(path)
    refused = same = other = 0
    for _ in range(count):
        changed = damaged(content, source)
        path.write_bytes(changed)
        try:
            found = read(path)
            same += found == expected
            other += found != expected and not exact
            if found != expected and exact:
                print(f"{path.name}: other content was read")
        except felbo.FelboError:
            refused += 1
        except Exception as error:
            print(f"{path.name}: {type(error).__name__}: {error}")
    path.write_bytes(content)
    return refused, same, other, count - refused - same - other


def files(folder: Path) -> dict[str, tuple[Path, Callable[[Path], object], bool]]:
    """Write one file of each kind; return it with its reader and whether it has checksums."""
    folder.mkdir()
    train(folder / "checkpoints", folder / "model", 1e9)
    before, newest = sorted((folder / "checkpoints").glob("checkpoint-*"))

    def resumed(path: Path) -> bytes:
        # In a folder of its own: a training goes on, and writes newer checkpoints.
        with tempfile.TemporaryDirectory() as name:
            for each in (before, path):
                shutil.copy(each, name)
            train(Path(name), folder / "again", 1e9)
        return (folder / "again").read_bytes()

    def weights(path: Path) -> str:
        return repr(felbo.load(path).state_dict())

    def probabilities(path: Path) -> object:
        return Prediction.load(path).probs.tolist()

    model = felbo.load(folder / "model")
    prediction = felbo.predict(model, torch.randn(20, 2), seed=0)
    prediction.save(folder / "prediction.npz")
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"])
    tables = {"csv": folder / "t.csv", "parquet": folder / "t.parquet", "npz": folder / "t.npz"}
    frame.to_csv(tables["csv"], index=False)
    frame.to_csv(folder / "t.csv.gz", index=False)
    frame.to_parquet(tables["parquet"])
    np.savez_compressed(tables["npz"], a=frame["a"], b=frame["b"])
    Image.effect_noise((32, 32), 50).save(folder / "i.png")
    table = lambda path: TableFile(path).read().to_csv()  # noqa: E731
    return {
        "saved model": (folder / "model", weights, True),
        "checkpoint": (newest, resumed, True),
        "prediction": (folder / "prediction.npz", probabilities, True),
        "CSV": (tables["csv"], table, False),
        "CSV, gzip": (folder / "t.csv.gz", table, True),
        "Parquet": (tables["parquet"], table, False),
        "NPZ": (tables["npz"], table, True),
        "image": (folder / "i.png", lambda p: repr(read_image(p, 8, 1)), True),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    source = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = []
        for kind, (path, read, exact) in files(folder / "files").items():
            counts = mutations(given.mutations, path, read, source, exact)
            rows.append(f"| {kind} | {' | '.join(map(str, counts))} |")
        survived, tried = kills(given.kills, folder, source) if given.kills else (0, 0)
    print(f"\nKills survived: {survived} of {tried}\n")
    print("| damaged file | refused | read as before | other content, no checksum | failed |")
    print("|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
