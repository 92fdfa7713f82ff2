"""``python -m benchmarks.torture``: run everything and print the table of docs/trust.md."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch

from benchmarks.torture import hostile
from benchmarks.torture.kills import kills
from benchmarks.torture.mutations import Counts, mutate
from benchmarks.torture.readers import readers
from benchmarks.torture.soak import soak

GROWTH = 0.02  # of the peak memory, at most


def main() -> None:
    """Print the table; exit with 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--mutations", type=int, default=1000, help="of each file")
    parser.add_argument("--fits", type=int, default=100_000, help="of Dirichlets")
    parser.add_argument("--losses", type=int, default=2000)
    parser.add_argument("--trainings", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=100, help="of 100 steps, memory is watched")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        counted = {
            "kills survived": kills(given.kills, Path(name) / "kills", given.seed),
            "Dirichlet fits handled": hostile.fits(given.fits, given.seed),
            "losses handled": hostile.losses(given.losses, given.seed),
            "trainings handled": hostile.trainings(given.trainings, given.seed),
        }
        found = {
            kind: mutate(kind, reader, given.mutations, random.Random(given.seed))
            for kind, reader in readers(Path(name) / "files").items()
        }
    first, last = soak(given.epochs)
    _print(counted, found, first, last, given.epochs)
    print(f"\n{(time.monotonic() - started) / 60:.0f} minutes, one thread.")
    failures = sum(tried - good for good, tried in counted.values())
    failures += sum(counts.failed for counts in found.values()) + (last > first * (1 + GROWTH))
    sys.exit(failures > 0)


def _print(
    counted: dict[str, tuple[int, int]],
    found: dict[str, Counts],
    first: float,
    last: float,
    epochs: int,
) -> None:
    total = Counts(*(sum(column) for column in zip(*found.values(), strict=True)))
    print("\n| what | good | tried |\n|---|---|---|")
    for what, (good, count) in counted.items():
        print(f"| {what} | {good:,} | {count:,} |")
    refused, same, other, failed = total
    print(
        f"\nOf {sum(total):,} damaged files, {refused:,} were refused, {same:,} read as before, "
        f"{other:,} read as other content (formats without checksums); {failed} failed."
    )
    steps = f"{epochs * 100:,} steps, against 1,000 steps"
    print(f"\nPeak memory after {steps}: {last / first - 1:+.1%} (at most {GROWTH:+.0%}).")
    print("\n| damaged file | refused | read as before | other content, no checksum | failed |")
    print("|---|---|---|---|---|")
    for kind, counts in found.items():
        print(f"| {kind} | {' | '.join(map(str, counts))} |")


if __name__ == "__main__":
    main()
