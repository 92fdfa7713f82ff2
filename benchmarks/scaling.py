"""Training in two processes against one, and an estimate for more: the tables of docs/scaling.md.

``python -m benchmarks.scaling``. Every process has one thread. On a machine that does other work,
wall times say little: the fastest epoch of three runs is taken, and the CPU time of a process is
shown beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from torch import nn

import felbo
from benchmarks.__main__ import processor
from felbo.distributed import Grid, ShardedEnsemble
from felbo.objectives.member_parallel import kl_from_means, means_over_draws
from felbo.report.page import replace_part

PAGE = Path("docs/scaling.md")
COMMAND = "python -m benchmarks.scaling"
CLASSES = 10
WAYS = ("one process", "data parallel", "member parallel")


@dataclass(frozen=True)
class Work:
    """An ensemble and its data.

    Attributes:
        make: builds one member.
        members: M.
        shape: of an input.
        batch: B, and the number of points.
        steps: per epoch.
        epochs: of which the fastest is taken.
    """

    make: Callable[[], nn.Module]
    members: int
    shape: tuple[int, ...]
    batch: int
    steps: int
    epochs: int

    @property
    def parameters(self) -> int:
        """Number of parameters of a member."""
        return sum(p.numel() for p in self.make().parameters())


WORKS = {
    "perceptron, 100 + 100 units": Work(
        lambda: felbo.networks.mlp(64, (100, 100), CLASSES), 20, (64,), 128, 10, 20
    ),
    "compact convolutional network": Work(
        lambda: felbo.networks.compact(CLASSES), 4, (3, 32, 32), 32, 2, 4
    ),
}


def train(work: Work, way: str, fabric: Fabric | None) -> dict[str, float]:
    """Return the seconds of a step, of the wall and of this process's CPU: the fastest epoch."""
    felbo.seed_everything(0)
    items = work.batch * work.steps
    data = torch.randn(items, *work.shape), torch.randint(CLASSES, (items,))
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(CLASSES), items)
    if way == "member parallel":
        model: Any = ShardedEnsemble(work.make, work.members, Grid())
    else:
        model = felbo.Ensemble(work.make, work.members)
    walls, cpus = [time.perf_counter()], [time.process_time()]

    def note(_: object) -> None:
        walls.append(time.perf_counter())
        cpus.append(time.process_time())

    felbo.fit(
        model,
        objective,
        data,
        epochs=work.epochs,
        batch_size=work.batch,
        seed=0,
        fabric=fabric,
        progress=False,
        on_epoch=note,
    )
    both = {"wall": walls, "cpu": cpus}
    return {
        name: min(b - a for a, b in pairwise(times[1:])) / work.steps
        for name, times in both.items()
    }


def exchange(numbers: int, repeats: int = 200) -> float:
    """Return the seconds of summing so many float64 over all processes: the fastest of repeats."""
    values = torch.ones(numbers, dtype=torch.float64)
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        dist.all_reduce(values.fill_(1.0))
        found.append(time.perf_counter() - start)
    return min(found)


def worker(folder: str) -> None:
    """Measure in one of several processes, and write the results."""
    torch.set_num_threads(1)
    world = int(os.environ["WORLD_SIZE"])
    fabric = None
    if world > 1:
        fabric = Fabric(accelerator="cpu", devices=world, strategy="ddp")
        fabric.launch()
    ways = WAYS[:1] if fabric is None else WAYS[1:]
    found: dict[str, Any] = {
        name: {way: train(work, way, fabric) for way in ways} for name, work in WORKS.items()
    }
    if fabric is None:
        found["fit"] = fit_seconds()
    else:
        found["exchange"] = {n: exchange(n) for n in (1, 2_560, 5_120, 1_000_000)}
    Path(folder, f"{os.environ['RANK']}.json").write_text(json.dumps(found))


def fit_seconds(points: int = 256, repeats: int = 50) -> float:
    """Return the seconds of the KL from the two means, which every process computes."""
    means = means_over_draws(torch.randn(20, points, CLASSES), 1e-4)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        kl_from_means(means, 20, torch.ones(CLASSES), 50_000.0, 1e-2)
        times.append(time.perf_counter() - start)
    return min(times)


def run(world: int) -> list[dict[str, Any]]:
    """Run the worker in so many processes and return their results."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for rank in range(world):
            variables = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": world}
            variables |= {"LOCAL_WORLD_SIZE": world, "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
            text = {name: str(value) for name, value in variables.items()}
            text |= {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "scaling"}
            command = [sys.executable, "-m", "benchmarks.scaling", "--worker", folder]
            started.append(subprocess.Popen(command, env=os.environ | text))
        codes = [process.wait() for process in started]
        if any(codes):
            raise RuntimeError("A process has failed: see its message.")
        files = [Path(folder, f"{rank}.json") for rank in range(world)]
        return [json.loads(file.read_text()) for file in files]


def fastest(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the smallest of each of the numbers in dicts of dicts."""
    return {
        name: fastest([result[name] for result in results])
        if isinstance(value, dict)
        else min(result[name] for result in results)
        for name, value in results[0].items()
    }


def sent(work: Work, way: str, world: int = 2) -> int:
    """Return the bytes that a process hands over to be summed, in a step."""
    if way == "data parallel":
        return 4 * work.parameters * work.members + 4 * 8
    if way == "member parallel":
        return 8 * (2 * work.batch * CLASSES + 1 + world) + 4 * 8
    return 0


def measured_table(one: dict[str, Any], two: list[dict[str, Any]]) -> list[str]:
    """Return the lines of the table of measured steps."""
    lines = [
        "| ensemble | way | bytes | wall, ms | CPU per process, ms | of one process |",
        "|---|---|---|---|---|---|",
    ]
    for name, work in WORKS.items():
        base = one[name]["one process"]
        for way in WAYS:
            found = [base] if way in one[name] else [result[name][way] for result in two]
            wall = max(part["wall"] for part in found)
            cpu = sum(part["cpu"] for part in found) / len(found)
            lines.append(
                f"| {work.members} × {name} | {way} | {sent(work, way):,} | {1e3 * wall:.2f} | "
                f"{1e3 * cpu:.2f} | {100 * cpu / base['cpu']:.0f} % |"
            )
    return lines


# Seconds per message and bytes per second of the links of the estimate: assumptions, not measured.
LINKS = {"1 Gbit/s, 100 µs": (1e-4, 1.25e8), "10 Gbit/s, 30 µs": (3e-5, 1.25e9)}
SLOWER = next(iter(LINKS))
MACHINES = (1, 2, 4, 8, 16, 50, 100)
MEMBERS = 100


def ring(size: int, machines: int, link: tuple[float, float]) -> float:
    """Return the seconds of a sum over machines in a ring: 2 (R − 1) messages of size / R."""
    latency, bandwidth = link
    return 2 * (machines - 1) * (latency + size / machines / bandwidth)


Steps = Callable[[int, tuple[float, float]], float]


def steps_of(name: str, one: dict[str, Any], two: list[dict[str, Any]]) -> Steps:
    """Return the seconds of a step with 100 members by machines of one core and their link.

    The time of a member is that of one process. What a process needs beside its members, for the
    exchange and for the KL from the means, is the rest of the time of two processes.
    """
    work = WORKS[name]
    each = (one[name]["one process"]["cpu"] - one["fit"]) / work.members
    divided = [result[name]["member parallel"]["cpu"] for result in two]
    rest = max(one["fit"], sum(divided) / len(divided) - each * work.members / 2)

    def seconds(machines: int, link: tuple[float, float]) -> float:
        if machines == 1:
            return MEMBERS * each + one["fit"]
        size = sent(work, "member parallel", machines)
        return ceil(MEMBERS / machines) * each + rest + ring(size, machines, link)

    return seconds


def estimate_table(steps: dict[str, Steps]) -> list[str]:
    """Return the lines of the estimate: milliseconds of a step, and the share of useful work."""
    lines = [
        f"| ensemble | machines | bytes | {' | '.join(LINKS)} | gradients instead |",
        f"|---|---|---|{'---|' * len(LINKS)}---|",
    ]
    for name, work in WORKS.items():
        for machines in MACHINES:
            found = [steps[name](machines, link) for link in LINKS.values()]
            alone = steps[name](1, LINKS[SLOWER])
            shown = [f"{1e3 * s:,.1f} ms ({100 * alone / machines / s:.0f} %)" for s in found]
            gradients = ring(4 * work.parameters * MEMBERS, machines, LINKS[SLOWER])
            size = sent(work, "member parallel", machines) if machines > 1 else 0
            lines.append(
                f"| {MEMBERS} × {name} | {machines} | {size:,} | {' | '.join(shown)} | "
                f"+ {1e3 * gradients:,.0f} ms |"
            )
    return lines


def limits(steps: dict[str, Steps]) -> list[str]:
    """Return, for each ensemble and link, up to how many machines it pays."""
    lines = []
    for name in WORKS:
        for text, link in LINKS.items():
            found = {r: steps[name](r, link) for r in range(1, MEMBERS + 1)}
            seconds, best = min((seconds, r) for r, seconds in found.items())
            half = max(r for r, seconds in found.items() if found[1] / r / seconds >= 0.5)
            lines.append(
                f"- {MEMBERS} × {name}, {text}: half of the work is useful up to {half} machines, "
                f"and a step is shortest on {best}, {found[1] / seconds:.0f} times as fast as "
                "on one."
            )
    return lines


def main() -> None:
    """Measure, and write the tables into the page."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--worker", metavar="FOLDER", help="measure in a process of several")
    parser.add_argument("--rounds", type=int, default=3, help="of which the fastest is taken")
    given = parser.parse_args()
    if given.worker:
        worker(given.worker)
        return
    before = os.getloadavg()[0]
    rounds = [(run(1)[0], run(2)) for _ in range(given.rounds)]
    one = fastest([one for one, _ in rounds])
    two = [fastest([two[rank] for _, two in rounds]) for rank in range(2)]
    load = f"{before:.1f} before, {os.getloadavg()[0]:.1f} after"
    times = {int(n): max(result["exchange"][n] for result in two) for n in two[0]["exchange"]}
    shown = ", ".join(f"{8 * n:,} bytes {1e6 * s:,.0f} µs" for n, s in times.items())
    steps = {name: steps_of(name, one, two) for name in WORKS}
    body = [
        f"Machine: {processor()}, {os.cpu_count()} cores, torch {torch.__version__}, Python "
        f"{platform.python_version()}, gloo over the loopback; load average {load}.",
        "",
        *measured_table(one, two),
        "",
        f"Sum over two processes, the fastest of 200: {shown}. KL from the two means at 256 "
        f"points, which every process computes: {1e3 * one['fit']:.2f} ms.",
        "",
        *estimate_table(steps),
        "",
        *limits(steps),
    ]
    print("\n".join(body))
    PAGE.write_text(replace_part(PAGE.read_text(), COMMAND, "\n".join(body)))


if __name__ == "__main__":
    main()
