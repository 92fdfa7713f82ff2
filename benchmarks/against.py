"""Training steps of this source tree against those of another, such as an earlier commit.

    git worktree add ../before COMMIT
    python -m benchmarks.against ../before

Each tree runs in a process of its own, and the two take their steps in turn. Both have one thread:
further threads of the process that waits would spin beside the other one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from benchmarks.timing import Row, compare

HERE = Path(__file__).parents[1]
GOAL = "≤ 1.03"


class Case(NamedTuple):
    """A training step that both trees can take; it is built inside each of them."""

    what: str
    build: Callable[[], Callable[[], None]]
    number: int
    rounds: int


def step(model: Any, classes: int, shape: tuple[int, ...]) -> Callable[[], None]:
    """Return one step of the bound with Adam on made-up data, through names that do not change."""
    import felbo

    torch.manual_seed(0)
    x, y = torch.randn(shape), torch.randint(0, classes, shape[:1])
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(classes), num_data=60_000)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def take() -> None:
        optimizer.zero_grad()
        objective(model, x, y).total.backward()
        optimizer.step()

    return take


def _map() -> Callable[[], None]:
    import felbo

    return step(felbo.MAP(felbo.networks.mlp(784, (50, 50), 10)), 10, (256, 784))


def _ensemble() -> Callable[[], None]:
    import felbo

    model = felbo.Ensemble(lambda: felbo.networks.mlp(784, (50, 50), 10), members=10)
    return step(model, 10, (256, 784))


def _resnet() -> Callable[[], None]:
    import felbo

    return step(felbo.MAP(felbo.networks.resnet18(10, width=16)), 10, (128, 3, 32, 32))


def _many_classes() -> Callable[[], None]:
    import felbo

    model = felbo.Ensemble(lambda: nn.Sequential(nn.Linear(512, 1000)), members=5)
    return step(model, 1000, (256, 512))


CASES = (
    Case("MLP 784-50-50-10, B = 256, M = 1", _map, 20, 150),
    Case("MLP ensemble, M = 10", _ensemble, 10, 80),
    Case("ResNet-18 (width 16), B = 128, M = 1", _resnet, 1, 40),
    Case("linear head 512-1000, K = 1000, M = 5, B = 256", _many_classes, 4, 40),
)


class Tree:
    """A process in which the library of one source tree takes steps when it is asked to."""

    def __init__(self, tree: Path, case: int) -> None:
        paths = os.pathsep.join((str(tree / "src"), str(HERE)))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.against", "--serve", str(case)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=HERE,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        )
        self.read()

    def read(self) -> None:
        """Wait for a line of the process."""
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            raise SystemExit("A process of the comparison ended; its message is above.")

    def __call__(self) -> None:
        """Take the steps of one measurement."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.read()

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def serve(case: Case) -> None:
    """Take steps whenever a line comes in."""
    take = case.build()
    for _ in range(3 * case.number):
        take()
    print("ready", flush=True)
    for _ in sys.stdin:
        for _ in range(case.number):
            take()
        print("done", flush=True)


def row(index: int, other: Path) -> Row:
    """Compare one step of this tree with that of another."""
    case = CASES[index]
    ours, theirs = Tree(HERE, index), Tree(other, index)
    try:
        found = compare(case.what, ours, str(other), theirs, GOAL, number=1, rounds=case.rounds)
    finally:
        ours.close()
        theirs.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, nargs="?", help="folder of the other source tree")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(CASES[arguments.serve])
        return
    if arguments.other is None or not (arguments.other / "src" / "felbo").is_dir():
        parser.error("name the folder of another source tree, one with src/felbo in it")
    for index in range(len(CASES)):
        found = row(index, arguments.other.resolve())
        mark = "" if found.reached else "  (missed)"
        quartiles = f"{found.low:.3f} to {found.high:.3f}"
        print(f"{found.what}: {found.ratio:.3f}, quartiles {quartiles}{mark}", flush=True)


if __name__ == "__main__":
    main()
