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
from functools import partial
from pathlib import Path

import felbo
from benchmarks.steps import CASES, Case, data_of, step_of, total
from benchmarks.timing import Row, compare

HERE = Path(__file__).parents[1]
GOAL = "≤ 1.03"


def step(case: Case) -> Callable[[], None]:
    """Return one training step, through names that source trees have in common."""
    x, y = data_of(case)
    model = case.build()
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(case.classes), num_data=60_000)
    return step_of(model, partial(total, objective, model, x, y))


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
    take = step(case)
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
