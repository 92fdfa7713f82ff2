"""Result files of a study, one per finished cell, so that an interrupted study can be resumed.

A file is valid if it was made with the same settings and by the same code of the study, see
:mod:`felbo.paper.fingerprint`. It also records the versions of felbo and torch, but these are not
compared, nor is the code of felbo outside the study.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import felbo
from felbo._files import write_atomically
from felbo.errors import FelboError
from felbo.paper.fingerprint import fingerprint
from felbo.paper.results import Observation, Raw
from felbo.paper.study import Study
from felbo.paper.trained import keeping_weights_in


class DamagedCellError(FelboError, ValueError):
    """A cell's file cannot be parsed, or belongs to another cell."""


class OutdatedCellError(FelboError, ValueError):
    """A cell's file was made with other settings or by other code."""


@dataclass(frozen=True)
class Cell:
    """A unit of work: one model with one seed.

    Attributes:
        experiment: key of the study.
        settings: of the preset, those that the model uses; a file made with others is not valid.
        code: fingerprint of the study's code; a file made by other code is not valid.
        path: file of its result.
    """

    experiment: str
    model: str
    seed: int
    settings: Mapping[str, Any]
    code: str
    path: Path


def cells(study: Study, models: list[str], seeds: int, preset: str, folder: Path) -> list[Cell]:
    """List the cells, seed by seed and the most expensive models first.

    An interrupted run then has the same seeds for every model, and the last cells to run are short
    ones.
    """
    ordered = sorted(models, key=lambda model: -study.models[model])
    return _cells(study, [(m, seed) for seed in range(seeds) for m in ordered], preset, folder)


def stored_cells(study: Study, preset: str, folder: Path) -> tuple[list[Cell], list[Path]]:
    """List the cells that have a file, model by model, and the files that belong to no cell."""
    models = {_slug(model): model for model in study.models}
    order = list(study.models)
    named, strays = [], []
    for path in sorted(_home(study, preset, folder).glob("*.json")):
        slug, _, seed = path.stem.rpartition("-")
        if slug in models and re.fullmatch("0|[1-9][0-9]*", seed):
            named.append((models[slug], int(seed)))
        else:
            strays.append(path)
    named.sort(key=lambda name: (order.index(name[0]), name[1]))
    return _cells(study, named, preset, folder), strays


def run_cell(study: Study, cell: Cell) -> None:
    """Compute a cell and write its file atomically."""
    start = time.perf_counter()
    # The file is in runs / study / preset.
    with keeping_weights_in(cell.path.parents[2]):
        observations = study.run(cell.model, cell.seed, cell.settings)
    _check_once([_row(cell, fields) for fields in observations])
    content = {
        "model": cell.model,
        "seed": cell.seed,
        "settings": cell.settings,
        "code": cell.code,
        "felbo": felbo.__version__,
        "torch": torch.__version__,
        "seconds": round(time.perf_counter() - start, 2),
        "observations": observations,
    }
    write_atomically(cell.path, json.dumps(content))


def read_cell(cell: Cell) -> list[Raw]:
    """Read the observations of a finished cell.

    Raises:
        FileNotFoundError: the cell has no file.
        DamagedCellError: the file cannot be read, holds another model or seed than its name, or a
            value twice.
        OutdatedCellError: the file was made with other settings or by other code.
    """
    text = cell.path.read_bytes()
    try:
        content = json.loads(text)
        identity = content["model"], content["seed"]
        made_with = content["settings"], content.get("code")
        rows = [Raw(cell.experiment, *_row(cell, fields)) for fields in content["observations"]]
        if not rows:
            raise ValueError("it holds no observations")
        _check_once([row[1:] for row in rows])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DamagedCellError(f"{cell.path} is damaged ({reason})") from error
    if identity != (cell.model, cell.seed):
        raise DamagedCellError(
            f"{cell.path} holds {identity[0]!r}, seed {identity[1]}, by its name it should hold "
            f"{cell.model!r}, seed {cell.seed}"
        )
    # Converted through JSON, which turns tuples into lists.
    if made_with[0] != json.loads(json.dumps(dict(cell.settings))):
        raise OutdatedCellError(f"{cell.path} was made with other settings")
    if made_with[1] != cell.code:
        raise OutdatedCellError(f"{cell.path} was made by other code of the study")
    return rows


def _row(cell: Cell, fields: Any) -> tuple[str, str, float, int, float]:
    metric, shift, value = Observation(*fields)
    if not isinstance(metric, str):
        raise TypeError(f"{metric!r} is no name of a metric")
    return metric, cell.model, float(shift), cell.seed, float(value)


def _check_once(rows: list[tuple[str, str, float, int, float]]) -> None:
    """Raise if a metric was measured twice at one shift: it would count as two seeds."""
    counts = Counter((metric, shift) for metric, _, shift, _, _ in rows)
    for (metric, shift), count in counts.items():
        if count > 1:
            raise ValueError(f"{metric!r} at {shift} is there {count} times")


def _cells(study: Study, named: list[tuple[str, int]], preset: str, folder: Path) -> list[Cell]:
    settings, code = study.presets[preset].settings, fingerprint(study.run)
    home = _home(study, preset, folder)
    return [
        Cell(study.key, model, seed, study.uses(model, settings), code, home / _file(model, seed))
        for model, seed in named
    ]


def _home(study: Study, preset: str, folder: Path) -> Path:
    return folder / study.key / preset


def _file(model: str, seed: int) -> str:
    return f"{_slug(model)}-{seed}.json"


def _slug(model: str) -> str:
    return re.sub(r"[^a-z0-9.=]+", "-", model.lower()).strip("-")
