"""Run every benchmark; write `benchmarks/results.json` and the table in `docs/performance.md`."""

from __future__ import annotations

import argparse
import json
import platform
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks import (
    attacks,
    compiled,
    corruptions,
    fitting,
    growth,
    guards,
    loops,
    memory,
    packages,
    points,
    steps,
    streaming,
    study,
)
from benchmarks.timing import Row
from felbo.report.page import replace_part

RESULTS = Path("benchmarks/results.json")
PAGE = Path("docs/performance.md")
GROUPS = {
    "fitting": fitting.rows,
    "steps": steps.rows,
    "loops": loops.rows,
    "guards": guards.rows,
    "points": points.rows,
    "memory": memory.rows,
    "streaming": streaming.rows,
    "study": study.rows,
    "whole-study": study.whole_rows,
    "packages": packages.rows,
    "compiled": compiled.rows,
    "corruptions": corruptions.rows,
    "all-corruptions": corruptions.whole_rows,
    "attacks": attacks.rows,
}
# Each takes about as long as all other groups together.
ONLY_WHEN_NAMED = ("whole-study", "all-corruptions")


def processor() -> str:
    """Return the name of the processor, or of the architecture if it is not available."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text())
        if found:
            return found.group(1)
    return platform.processor() or platform.machine()


def table(rows: Iterable[Row]) -> str:
    """Format rows as Markdown."""
    lines = [
        "| what | against | goal | measured | quartiles | plain form | note |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        mark = "" if row.reached else " **(missed)**"
        plain = "" if row.plain is None else f"{row.plain:,.2f}"
        lines.append(
            f"| {row.what} | {row.against} | {row.goal} | {row.ratio:,.2f}{mark} "
            f"| {row.low:,.2f} to {row.high:,.2f} | {plain} | {row.note} |"
        )
    return "\n".join(lines)


def growth_table(found: Iterable[dict[str, Any]]) -> str:
    """Format the growth of the cost along each axis as Markdown."""
    lines = ["| axis | sizes | milliseconds | exponent |", "|---|---|---|---|"]
    for item in found:
        sizes, times = item["sizes"], item["milliseconds"]
        lines.append(
            f"| {item['axis']} | {sizes[0]:,} to {sizes[-1]:,} "
            f"| {times[0]:.2f} to {times[-1]:.2f} | {item['exponent']:.2f} |"
        )
    return "\n".join(lines)


def write_page(content: dict[str, Any]) -> None:
    """Replace the generated part of the docs page."""
    described = ", ".join(f"{key} {value}" for key, value in content["machine"].items())
    rows = [Row(**row) for name in GROUPS for row in content["groups"].get(name, [])]
    parts = [f"Machine: {described}.", table(rows)]
    if "growth" in content:
        parts.append(growth_table(content["growth"]))
    body = "\n\n".join(parts)
    PAGE.write_text(replace_part(PAGE.read_text(), "make bench", body))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "groups",
        nargs="*",
        help=f"any of {', '.join(GROUPS)}, growth; all but {', '.join(ONLY_WHEN_NAMED)} if none",
    )
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    machine = {
        "processor": processor(),
        "threads": arguments.threads,
        "torch": torch.__version__,
        "Python": platform.python_version(),
    }
    print(", ".join(f"{key}: {value}" for key, value in machine.items()))
    # A group that is run alone replaces its own rows; results of another machine are dropped.
    content: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if content.get("machine") != machine:
        content = {"machine": machine, "groups": {}}
    usual = [name for name in GROUPS if name not in ONLY_WHEN_NAMED]
    for name in arguments.groups or [*usual, "growth"]:
        if name == "growth":
            found = list(growth.rows())
            content["growth"] = [asdict(item) for item in found]
            growth.draw(found, Path("docs/assets/growth"))
        else:
            content["groups"][name] = [asdict(row) for row in measured(name)]
        RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        write_page(content)


def measured(name: str) -> Iterator[Row]:
    """Yield the rows of a group and print each when it is measured."""
    for row in GROUPS[name]():
        state = "reached" if row.reached else "missed"
        print(f"{row.what} | {row.against}: {row.ratio:.2f} (goal {row.goal}: {state})", flush=True)
        yield row


if __name__ == "__main__":
    main()
