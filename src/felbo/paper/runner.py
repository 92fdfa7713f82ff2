"""Run the cells of a study with an engine, and write tables and figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from rich.console import Console
from rich.markup import escape

from felbo import data
from felbo._files import remove_parts, require_writable
from felbo.data.registry import Split
from felbo.errors import FelboError
from felbo.paper.cells import (
    Cell,
    DamagedCellError,
    OutdatedCellError,
    cells,
    read_cell,
    stored_cells,
)
from felbo.paper.engines import compute, require_engine
from felbo.paper.progress import following
from felbo.paper.results import Raw, Summary, summarise, write_csv
from felbo.paper.study import Study


class RequestError(FelboError, ValueError):
    """Unknown preset or model of a study, or an invalid number of processes."""


class Outcome(NamedTuple):
    """Summaries, table and figure of a study."""

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
    engine: str = "local",
    results: Path = Path("results"),
    runs: Path = Path("runs"),
) -> Outcome:
    """Run the cells that are not finished yet and summarise all finished ones.

    Damaged and outdated files of cells are reported and computed again. Folders that cannot be
    written to and missing data are detected before anything is computed.

    Args:
        study: the study to run.
        preset: one of the study's presets. The full one writes to ``results``, the others to a
            folder of their name inside it.
        models: a subset of the study's models; the table keeps the finished cells of the others.
        seeds: number of seeds; ``None`` takes the preset's.
        jobs: processes, each with one torch thread.
        engine: ``"local"`` for processes of this machine, ``"ray"`` or ``"dask"`` for a cluster:
            the one that is configured, otherwise one of ``jobs`` processes that is started here.
        results: folder of tables and figures.
        runs: folder of the cells' files.

    Raises:
        RequestError: unknown preset or model, or ``jobs`` below 1.
        felbo.paper.engines.EngineError: the engine is unknown or not installed, or its cluster
            cannot be used.
        felbo.paper.attempts.WorkerDiedError: workers died at every attempt at a cell.
        felbo.data.MissingDataError: a data set is missing and cannot be downloaded.
        felbo._files.OutputFolderError: a folder cannot be written to.
    """
    wanted = requested_cells(study, preset, models, seeds, runs)
    if jobs < 1:
        raise RequestError(f"jobs must be at least 1, got {jobs}.")
    require_engine(engine)
    home = results if preset == "paper" else results / preset
    kept = runs / study.key / preset
    for folder, stem in ((home, study.key), (kept, "")):
        require_writable(folder)
        remove_parts(folder, stem)
    done, problems = _read(wanted)
    _tell(problems, "made anew")
    pending = [cell for cell in wanted if cell.path not in done]
    if pending:
        _look_for_data(study)
    _run(study, pending, engine, jobs)
    return collect(study, preset, home, runs)


def requested_cells(
    study: Study, preset: str, models: list[str] | None, seeds: int | None, runs: Path
) -> list[Cell]:
    """List the cells of a request, finished or not.

    Raises:
        RequestError: unknown preset or model.
    """
    chosen = _check_models(study, models)
    if preset not in study.presets:
        known = list(study.presets)
        raise RequestError(f"No preset {preset!r} in {study.name}; there are {known}.")
    return cells(study, chosen, seeds or study.presets[preset].seeds, preset, runs)


def collect(study: Study, preset: str, results: Path, runs: Path) -> Outcome:
    """Write the tables (raw and summarised) and the figure from all finished cells."""
    stored, strays = stored_cells(study, preset, runs)
    done, problems = _read(stored)
    problems += [f"{path} is no cell of {study.name}" for path in strays]
    _tell(problems, "left out")
    rows = [row for found in done.values() for row in found]
    if not rows:
        raise FileNotFoundError(f"No finished cell of {study.name} under {runs}.")
    summaries = summarise(rows)
    table = results / f"{study.key}.csv"
    write_csv(results / f"{study.key}_raw.csv", rows, Raw._fields)
    write_csv(table, summaries, Summary._fields)
    study.draw(summaries, str(results / study.key))
    return Outcome(summaries, table, results / f"{study.key}.png")


def _read(wanted: Sequence[Cell]) -> tuple[dict[Path, list[Raw]], list[str]]:
    """Return the rows of each finished cell by its file, and the problems with other files."""
    done: dict[Path, list[Raw]] = {}
    damaged, outdated = [], []
    for cell in wanted:
        try:
            done[cell.path] = read_cell(cell)
        except FileNotFoundError:
            continue
        except DamagedCellError as error:
            damaged.append(str(error))
        except OutdatedCellError as error:
            outdated.append(str(error))
    # A change of the study makes all of its files outdated at once, so one line is enough.
    more = f", and {len(outdated) - 1} more files like it" if len(outdated) > 1 else ""
    return done, damaged + [f"{first}{more}" for first in outdated[:1]]


def _tell(problems: Sequence[str], consequence: str) -> None:
    for problem in problems:
        Console().print(f"{escape(problem)}: {consequence}.", soft_wrap=True)


def _look_for_data(study: Study) -> None:
    """Load the study's data in this process, so that missing data are detected early."""
    for name in study.data:
        for split in get_args(Split):
            data.load(name, split)


def _run(study: Study, pending: list[Cell], engine: str, jobs: int) -> None:
    if not pending:
        return
    with following(study, pending) as bar:
        compute(study, pending, engine, jobs, tell=lambda text: bar.print(f"{escape(text)}."))


def _check_models(study: Study, models: list[str] | None) -> list[str]:
    unknown = [model for model in models or [] if model not in study.models]
    if unknown:
        raise RequestError(f"No model {unknown} in {study.name}; there are {list(study.models)}.")
    return models or list(study.models)
