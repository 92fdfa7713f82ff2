"""Progress bar that follows the files of cells, whichever process or machine writes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from felbo.paper.cells import Cell
from felbo.paper.study import Study

SECONDS = 0.5  # between two looks at the files


@contextmanager
def following(study: Study, pending: Sequence[Cell]) -> Iterator[Progress]:
    """Show a bar that advances by the relative cost of each cell whose file is written.

    Files rather than results are counted, since not every engine returns results one by one.
    """
    ended = threading.Event()
    columns = ("{task.fields[cells]}", "{task.fields[left]}")
    text = [TextColumn(column) for column in columns]
    name = TextColumn("{task.description}")
    with Progress(name, BarColumn(), text[0], TimeElapsedColumn(), text[1]) as bar:
        costs = [study.models[cell.model] for cell in pending]
        task = bar.add_task(study.name, total=sum(costs), cells="", left="")
        arguments = (bar, task, [cell.path for cell in pending], costs, ended)
        thread = threading.Thread(target=_follow, args=arguments, daemon=True)
        thread.start()
        try:
            yield bar
        finally:
            ended.set()
            thread.join()


def _follow(
    bar: Progress, task: TaskID, paths: list[Path], costs: list[float], ended: threading.Event
) -> None:
    # Damaged and outdated files are there already, and are replaced.
    before = [_written(path) for path in paths]
    last = False
    while not last:
        last = ended.wait(SECONDS)
        new = [_written(path) != old for path, old in zip(paths, before, strict=True)]
        completed = sum(cost for cost, done in zip(costs, new, strict=True) if done)
        bar.update(task, completed=completed, cells=f"{sum(new)}/{len(new)} cells")
        bar.update(task, left=_left(bar, completed, sum(costs)))


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _left(bar: Progress, completed: float, total: float) -> str:
    elapsed = bar.tasks[0].elapsed
    if not elapsed or not completed or completed == total:
        return ""
    return f"about {elapsed * (total - completed) / completed / 60:.0f} min left"
