"""Run the cells of a study, in processes if wanted, and write tables and figure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import joblib
import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from felbo.paper.cells import Cell, cells, is_finished, read_cell, run_cell
from felbo.paper.results import Raw, Summary, summarise, write_csv
from felbo.paper.study import Study


class Outcome(NamedTuple):
    """What a run of a study produced."""

    summaries: list[Summary]
    table: Path
    figure: Path


def reproduce(
    study: Study,
    *,
    preset: str = "paper",
    models: list[str] | None = None,
    seeds: int | None = None,
    jobs: int = 1,
    results: Path = Path("results"),
    runs: Path = Path("runs"),
) -> Outcome:
    """Run every cell that is not finished yet and summarise all that are.

    Args:
        study: what to run.
        preset: one of the study's presets. The full one writes to ``results``, the others to a
            folder of their name inside it.
        models: a subset of the study's models; the table keeps the finished cells of the others.
        seeds: number of seeds; ``None`` takes the preset's.
        jobs: processes, each with one torch thread.
        results: folder of tables and figures.
        runs: folder of the cells' files.
    """
    chosen = _check_models(study, models)
    if preset not in study.presets:
        raise ValueError(f"No preset {preset!r} in {study.name}; there are {list(study.presets)}.")
    count = study.presets[preset].seeds if seeds is None else seeds
    pending = [c for c in cells(study, chosen, count, preset, runs) if not is_finished(c)]
    _run(study, pending, jobs)
    home = results if preset == "paper" else results / preset
    return collect(study, preset, home, runs)


def collect(study: Study, preset: str, results: Path, runs: Path) -> Outcome:
    """Write the tables (raw and summarised) and the figure from all finished cells."""
    most = max((int(p.stem.rsplit("-", 1)[1]) + 1 for p in _files(study, preset, runs)), default=0)
    every = cells(study, list(study.models), most, preset, runs)
    order = list(study.models)
    every.sort(key=lambda cell: (order.index(cell.model), cell.seed))
    rows = [row for cell in every if is_finished(cell) for row in read_cell(study, cell)]
    if not rows:
        raise FileNotFoundError(f"No finished cell of {study.name} under {runs}.")
    summaries = summarise(rows)
    table = results / f"{study.key}.csv"
    write_csv(results / f"{study.key}_raw.csv", rows, Raw._fields)
    write_csv(table, summaries, Summary._fields)
    study.draw(summaries, str(results / study.key))
    return Outcome(summaries, table, results / f"{study.key}.png")


def _files(study: Study, preset: str, runs: Path) -> Iterator[Path]:
    return (runs / study.key / preset).glob("*-*.json")


def _run(study: Study, pending: list[Cell], jobs: int) -> None:
    """Compute cells; the bar advances by their relative cost, so its estimate is of use."""
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}.")
    with _bar() as bar:
        total = sum(study.models[cell.model] for cell in pending)
        task = bar.add_task(study.name, total=total, cells=f"0/{len(pending)} cells", left="")
        work = (joblib.delayed(_worker)(study, cell) for cell in pending)
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        for done, cost in enumerate(parallel(work), start=1):
            bar.update(task, advance=cost, cells=f"{done}/{len(pending)} cells")
            current = bar.tasks[0]
            if current.elapsed and not current.finished:
                left = current.elapsed * (total - current.completed) / current.completed
                bar.update(task, left=f"about {left / 60:.0f} min left")


def _worker(study: Study, cell: Cell) -> float:
    # Several processes with several threads each would fight over the cores.
    torch.set_num_threads(1)
    run_cell(study, cell)
    return study.models[cell.model]


def _check_models(study: Study, models: list[str] | None) -> list[str]:
    unknown = [model for model in models or [] if model not in study.models]
    if unknown:
        raise ValueError(f"No model {unknown} in {study.name}; there are {list(study.models)}.")
    return models or list(study.models)


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[cells]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
