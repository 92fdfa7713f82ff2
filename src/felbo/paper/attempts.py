"""Compute a cell in a worker process that may be killed, a bounded number of times.

Engines repeat the task of a worker that died, without an end if the task is what kills the worker,
such as by the memory it takes. Each attempt therefore leaves a mark beside the cell's file, which
is removed when the attempt ends, and stays if its process dies.
"""

from __future__ import annotations

from pathlib import Path

from felbo._files import PART
from felbo.errors import FelboError
from felbo.paper.cells import Cell, DamagedCellError, OutdatedCellError, read_cell, run_cell
from felbo.paper.study import Study
from felbo.paper.threads import one_thread

TRIES = 3


class WorkerDiedError(FelboError, RuntimeError):
    """Workers died at every attempt at a cell."""


def attempt(study: Study, cell: Cell) -> int:
    """Compute a cell with one thread, unless it is finished, and return the number of attempts.

    Returns:
        1 if no worker died, 0 if the cell was finished: an engine repeats finished tasks if their
        results were lost together with their worker.

    Raises:
        WorkerDiedError: workers died at :data:`TRIES` attempts.
    """
    if finished(cell):
        return 0
    mark = mark_of(cell)
    died = mark.stat().st_size if mark.exists() else 0
    if died >= TRIES:
        raise WorkerDiedError(
            f"{died} workers died while they computed {cell.path}. They may have run out of memory "
            "(use fewer --jobs, or workers with more memory) or were killed by somebody else (run "
            "the same command again: finished cells are kept)."
        )
    mark.parent.mkdir(parents=True, exist_ok=True)
    with mark.open("ab") as file:
        file.write(b".")
    try:
        with one_thread():
            run_cell(study, cell)
    finally:  # also after an error, which the engine reports and does not repeat
        mark.unlink(missing_ok=True)
    return died + 1


def finished(cell: Cell) -> bool:
    """Whether a cell has a valid file."""
    try:
        read_cell(cell)
    except (FileNotFoundError, DamagedCellError, OutdatedCellError):
        return False
    return True


def mark_of(cell: Cell) -> Path:
    """File with one byte per attempt; a new run of the study removes it like every part."""
    return cell.path.with_name(f"{cell.path.name}.tries{PART}")
