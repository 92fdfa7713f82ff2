"""Print the plan of a study: `felbo reproduce NAME --dry-run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from felbo.paper.planning import Plan


def print_plan(console: Console, title: str, plan: Plan) -> None:
    """Print cells, memory and times, and say what these are based on."""
    from felbo.paper.planning import CPU, GPUS, SECONDS_PER_STEP, SHARE_OF_PEAK

    devices = list(next((m.seconds for m in plan.models if m.seconds), {CPU: 0.0}))
    table = Table(title=title)
    for column in ("model", "finished seeds", "seeds to compute", "memory"):
        table.add_column(column, justify="right" if column == "memory" else "left")
    for device in devices:
        table.add_column(f"a cell:\n{device}", justify="right")
    for each in plan.models:
        times = [duration(each.seconds[d]) if d in each.seconds else "?" for d in devices]
        memory = f"{each.memory / 1e9:.1f} GB" if each.memory > 1e8 else "< 0.1 GB"
        table.add_row(each.model, spans(each.finished), spans(each.pending), memory, *times)
    console.print(table)
    pending = sum(len(each.pending) for each in plan.models)
    finished = sum(len(each.finished) for each in plan.models)
    lines = [f"Cells to compute: {pending}; finished: {finished}."]
    if any(plan.trainings):
        needed, kept = plan.trainings
        lines.append(f"Networks to train: {needed}; with weights that are kept already: {kept}.")
    for device, seconds in plan.seconds.items():
        lines.append(f"All cells to compute, {device}: about {duration(seconds)}.")
    if plan.basis:
        lines.append(f"Times are estimates, from {plan.basis}.")
    else:
        lines.append(
            "Times are unknown until a cell is finished: run one with --models, --seeds 1."
        )
    lines.append("Memory is that of one process, without Python and torch themselves.")
    if any(device in plan.seconds for device in GPUS):
        share = f"{SHARE_OF_PEAK:.0%}".replace("%", " %")
        lines.append(
            f"Times of GPUs are not measured: they assume {share} of the stated peak in float32, "
            f"and at least {1000 * SECONDS_PER_STEP:g} ms per training step."
        )
    for name, command in plan.missing.items():
        lines.append(f"Data: {name} is not here; `{command}` fetches it.")
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


def duration(seconds: float) -> str:
    """Format seconds with the unit that fits, two significant digits.

    Example:
        >>> [duration(s) for s in (0.5, 95, 5400, 400_000)]
        ['0.5 s', '1.6 min', '1.5 h', '4.6 days']
    """
    for unit, length in (("days", 172_800), ("h", 5400), ("min", 90)):
        if seconds >= length:
            amount = seconds / {"days": 86_400, "h": 3600, "min": 60}[unit]
            return f"{amount:.0f} {unit}" if amount >= 10 else f"{amount:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def spans(seeds: Sequence[int]) -> str:
    """Format seeds as spans.

    Example:
        >>> spans([0, 1, 2, 5, 7, 8])
        '0–2, 5, 7–8'
    """
    found: list[list[int]] = []
    for seed in sorted(seeds):
        if found and seed == found[-1][1] + 1:
            found[-1][1] = seed
        else:
            found.append([seed, seed])
    return ", ".join(f"{low}" if low == high else f"{low}–{high}" for low, high in found)
