"""Compute the panels of a figure in parallel processes, with a progress bar for each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

import joblib
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from felbo.paper.threads import one_thread

Panel = TypeVar("Panel", bound=Sequence[str])
Result = TypeVar("Result")

REFRESH_SECONDS = 0.2


@dataclass(frozen=True)
class Ticker:
    """Step counter shared between processes: each call appends one byte to a file."""

    path: Path

    def __call__(self) -> None:
        """Count one step."""
        with self.path.open("ab") as file:
            file.write(b".")

    @property
    def count(self) -> int:
        """Steps so far."""
        return self.path.stat().st_size if self.path.exists() else 0


def compute_panels(
    compute: Callable[[Panel, Ticker], Result],
    panels: Sequence[Panel],
    *,
    steps: int,
    jobs: int,
    describe: Callable[[Result], str],
) -> dict[Panel, Result]:
    """Call ``compute(panel, ticker)`` for each panel in parallel and show progress bars.

    Args:
        compute: computes one panel and calls the ticker once per step; must be picklable.
        panels: in the order in which they are started: the longest first, so that all processes
            stay busy until the end.
        steps: how often ``compute`` calls the ticker.
        jobs: processes, one torch thread each.
        describe: one line about a finished panel.

    Returns:
        The results by panel, in the order of ``panels``.
    """
    results: dict[Panel, Result] = {}
    with tempfile.TemporaryDirectory(prefix="felbo-") as folder, _bars() as bars:
        tickers = {p: Ticker(Path(folder) / str(i)) for i, p in enumerate(panels)}
        tasks = {
            p: bars.add_task(", ".join(p), total=steps, start=False, visible=False) for p in panels
        }
        work = (joblib.delayed(_worker)(compute, p, tickers[p]) for p in panels)
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        with _watching(bars, tickers, tasks):
            for panel, result in parallel(work):
                results[panel] = result
                bars.update(tasks[panel], visible=False)
                bars.console.print(f"{', '.join(panel):<34} {describe(result)}", soft_wrap=True)
    return {panel: results[panel] for panel in panels}


def _worker(
    compute: Callable[[Panel, Ticker], Result], panel: Panel, ticker: Ticker
) -> tuple[Panel, Result]:
    with one_thread():
        return panel, compute(panel, ticker)


@contextmanager
def _watching(
    bars: Progress, tickers: Mapping[Any, Ticker], tasks: Mapping[Any, TaskID]
) -> Iterator[None]:
    """Update the progress bars from the tickers in a background thread."""
    finished = Event()

    def watch() -> None:
        while not finished.wait(REFRESH_SECONDS):
            for panel, ticker in tickers.items():
                task = bars.tasks[tasks[panel]]
                if ticker.count and not task.started:
                    bars.start_task(task.id)
                    bars.update(task.id, visible=True)
                bars.update(task.id, completed=ticker.count)

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def _bars() -> Progress:
    return Progress(
        TextColumn("{task.description:<34}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} epochs"),
        TimeElapsedColumn(),
    )
