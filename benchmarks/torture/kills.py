"""Kill processes that train, and compare where they end with a training that was not killed."""

from __future__ import annotations

import multiprocessing
import random
import time
from pathlib import Path

from benchmarks.torture.tables import TableTraining
from benchmarks.torture.trainings import Training

# Kills of one training, before it is let to its end.
KILLS = 4
# Share of the trainings that are of tables.
TABLES = 0.25


def kills(count: int, folder: Path, seed: int) -> tuple[int, int]:
    """Return survived and tried kills, and print the trainings that did not survive theirs.

    A training survives if it ends with the weights and the history of one that was not interrupted,
    bit for bit. A kill counts only if the process was still training; the instants are drawn
    uniformly from the time that the whole training takes.
    """
    source = random.Random(seed)
    # Once in this process: what a training imports lazily is then there in each process forked.
    Training(seed).run(folder / "first", folder / "first-model")
    TableTraining(seed).run(folder / "first-table", folder / "first-model")
    survived = tried = number = 0
    while tried < count:
        kind = TableTraining if source.random() < TABLES else Training
        training = kind(source.randrange(1 << 30))
        home = folder / f"{number}"
        number += 1
        started = time.monotonic()
        _ended(training, home / "whole", [])
        longest = time.monotonic() - started
        waits = [source.uniform(0, longest) for _ in range(min(KILLS, count - tried))]
        killed = _ended(training, home / "killed", waits)
        same = _result(home / "whole") == _result(home / "killed")
        tried += killed
        survived += killed * same
        if not same:
            print(f"NOT survived: {training}, killed after {waits}")
    return survived, tried


def _ended(training: Training | TableTraining, folder: Path, waits: list[float]) -> int:
    """Kill a training after each wait, let the next one end; return the number of real kills."""
    folder.mkdir(parents=True)
    # Forked: a new interpreter would take longer to import torch than to train. The parent has one
    # thread, so that no lock of another one is copied.
    context = multiprocessing.get_context("fork")
    killed = 0
    for wait in (*waits, None):
        process = context.Process(target=training.run, args=(folder / "steps", folder / "model"))
        process.start()
        process.join(wait)
        if process.is_alive():
            process.kill()
            process.join()
            killed += 1
    return killed


def _result(folder: Path) -> list[bytes]:
    files = folder / "model", folder / "model.txt"
    return [path.read_bytes() if path.exists() else b"missing" for path in files]
