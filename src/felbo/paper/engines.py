"""Engines that compute the cells of a study: processes of this machine, a Ray or a Dask cluster.

All of them are backends of joblib. Ray and Dask give the cell of a worker that died to another
worker by themselves; for the processes of this machine this module does.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Literal, get_args

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError

from felbo.errors import FelboError
from felbo.paper.attempts import TRIES, WorkerDiedError, attempt, finished
from felbo.paper.cells import Cell
from felbo.paper.study import Study

Engine = Literal["local", "ray", "dask"]
PACKAGES = {"local": "joblib", "ray": "ray", "dask": "distributed"}


class EngineError(FelboError, RuntimeError):
    """An engine is unknown or not installed, or its cluster cannot be used."""


def require_engine(engine: str) -> None:
    """Raise if an engine is unknown or its package is not installed.

    Raises:
        EngineError: with the command that installs it.
    """
    if engine not in get_args(Engine):
        raise EngineError(f"No engine {engine!r}; there are {list(get_args(Engine))}.")
    if importlib.util.find_spec(PACKAGES[engine]) is None:
        raise EngineError(
            f"The engine {engine!r} needs the package {PACKAGES[engine]}, which is not installed: "
            f"pip install 'felbo[{engine}]'"
        )


def compute(
    study: Study, pending: Sequence[Cell], engine: str, jobs: int, tell: Callable[[str], None]
) -> None:
    """Compute cells with an engine; a cell whose worker died is tried again.

    Args:
        study: of the cells.
        pending: the cells.
        engine: see :data:`Engine`.
        jobs: processes; for Ray and Dask, of the cluster that is started if none is configured.
        tell: called with each sentence about workers that died.

    Raises:
        WorkerDiedError: workers died again and again.
        EngineError: the cluster cannot be used, or does not see the folder of the cells.
    """
    # Workers may have another working directory.
    moved = [replace(cell, path=cell.path.absolute()) for cell in pending]
    work = [joblib.delayed(attempt)(study, cell) for cell in moved]
    with _CLUSTERS[engine](jobs) as settings, joblib.parallel_config(**settings):
        # With one process, joblib would compute in this process instead of the cluster.
        if engine != "local" and joblib.effective_n_jobs() < 2:
            raise EngineError(
                f"The {engine} cluster has fewer than 2 processes. Add workers, or use --jobs 2 if "
                "it is started here."
            )
        tries = _until_done(joblib.Parallel(batch_size=1), work, moved, tell)
    for cell, count in zip(pending, tries, strict=True):
        if not finished(cell):
            raise EngineError(
                f"A worker finished {cell.path}, but the file is not here. The workers must see "
                f"the folder {cell.path.parent.absolute()} under the same path."
            )
        if count > 1:
            tell(f"{cell.path.name} took {count} attempts, since its worker died")


def _until_done(
    parallel: Any, work: list[Any], cells: Sequence[Cell], tell: Callable[[str], None]
) -> list[int]:
    """Start anew when a process of this machine died, unless none of the cells gets finished."""
    in_vain = 0
    while True:
        left = sum(not finished(cell) for cell in cells)
        try:
            return list(parallel(work))
        except TerminatedWorkerError as error:
            now = sum(not finished(cell) for cell in cells)
            in_vain = in_vain + 1 if now == left else 0
            if in_vain > TRIES:
                raise WorkerDiedError(
                    f"Workers died {in_vain} times and no cell was finished: {error}"
                ) from error
            tell(f"A worker died: {now} unfinished cells are started again")


@contextmanager
def _local(jobs: int) -> Iterator[dict[str, Any]]:
    yield {"backend": "loky", "n_jobs": jobs}


@contextmanager
def _ray(jobs: int) -> Iterator[dict[str, Any]]:
    """Use the running Ray cluster, or start one of ``jobs`` CPUs on this machine."""
    # No reports about the use of a cluster that is started here.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.util.joblib import register_ray

    register_ray()
    connected_before = ray.is_initialized()
    if not connected_before:
        _connect_to_ray(ray, jobs)
    try:
        # Restarted without limit: the number of attempts is limited for each cell.
        options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": TRIES + 1}
        yield {"backend": "ray", "n_jobs": -1, "ray_remote_args": options}
    finally:
        if not connected_before:
            ray.shutdown()


def _connect_to_ray(ray: Any, jobs: int) -> None:
    if "RAY_ADDRESS" in os.environ:
        ray.init()
        return
    try:
        ray.init(address="auto")  # a cluster that runs on this machine
    except ConnectionError:
        ray.init(num_cpus=jobs, include_dashboard=False)


@contextmanager
def _dask(jobs: int) -> Iterator[dict[str, Any]]:
    """Use the Dask scheduler of ``DASK_SCHEDULER_ADDRESS``, or start workers on this machine."""
    import dask
    from distributed import Client

    configured = dask.config.get("scheduler-address", None)
    local = {"n_workers": jobs, "threads_per_worker": 1, "processes": True}
    with Client(configured) if configured else Client(**local, dashboard_address=None) as client:
        # Cells set the seed and the number of threads of their process.
        if any(threads > 1 for threads in client.nthreads().values()):
            raise EngineError(
                "Workers of the Dask cluster have several threads, in which cells would disturb "
                "each other. Start them with: dask worker --nthreads 1"
            )
        # joblib waits forever for a task that Dask gives up; cells limit their attempts themselves.
        before = client.run_on_scheduler(_allow_failures, 10**6)
        try:
            yield {"backend": "dask", "client": client}
        finally:
            client.run_on_scheduler(_allow_failures, before)


def _allow_failures(number: int, dask_scheduler: Any) -> int:
    """Set how often a worker may die before Dask gives its tasks up; return what it was."""
    before = int(dask_scheduler.allowed_failures)
    dask_scheduler.allowed_failures = number
    return before


_CLUSTERS: dict[str, Callable[[int], AbstractContextManager[dict[str, Any]]]] = {
    "local": _local,
    "ray": _ray,
    "dask": _dask,
}
