"""One file per finished cell, so that an interrupted study goes on where it stopped."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from felbo.paper.results import Observation, Raw
from felbo.paper.study import Study


@dataclass(frozen=True)
class Cell:
    """A unit of work: one model with one seed.

    Attributes:
        path: where its result is kept.
        settings: of the preset; a file made with other settings does not count.
    """

    model: str
    seed: int
    settings: Mapping[str, Any]
    path: Path


def cells(study: Study, models: list[str], seeds: int, preset: str, folder: Path) -> list[Cell]:
    """List the cells, seed by seed and costly models first.

    Whatever is finished when a run stops then has the same seeds for every model, and no long cell
    is left alone at the end.
    """
    settings = study.presets[preset].settings
    home = folder / study.key / preset
    ordered = sorted(models, key=lambda model: -study.models[model])
    return [
        Cell(model, seed, settings, home / f"{_slug(model)}-{seed}.json")
        for seed in range(seeds)
        for model in ordered
    ]


def run_cell(study: Study, cell: Cell) -> None:
    """Compute a cell and write its file in one move, so that no half-written file can be read."""
    start = time.perf_counter()
    observations = study.run(cell.model, cell.seed, cell.settings)
    content = {
        "model": cell.model,
        "seed": cell.seed,
        "settings": cell.settings,
        "seconds": round(time.perf_counter() - start, 2),
        "observations": observations,
    }
    cell.path.parent.mkdir(parents=True, exist_ok=True)
    partial = cell.path.with_suffix(f".{os.getpid()}.part")
    partial.write_text(json.dumps(content))
    partial.replace(cell.path)


def is_finished(cell: Cell) -> bool:
    """Whether the cell's file is there and was made with the same settings."""
    if not cell.path.exists():
        return False
    stored = json.loads(cell.path.read_text())["settings"]
    return bool(stored == json.loads(json.dumps(dict(cell.settings))))


def read_cell(study: Study, cell: Cell) -> list[Raw]:
    """Read the observations of a finished cell."""
    content = json.loads(cell.path.read_text())
    return [
        Raw(study.key, o.metric, cell.model, o.shift, cell.seed, o.value)
        for o in (Observation(*fields) for fields in content["observations"])
    ]


def _slug(model: str) -> str:
    return re.sub(r"[^a-z0-9.=]+", "-", model.lower()).strip("-")
