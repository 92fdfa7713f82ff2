"""What a run of a study would compute, and about how long it would take: `--dry-run`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from felbo.data import REGISTRY
from felbo.data.location import data_root, fetch_command
from felbo.paper.cells import Cell, DamagedCellError, OutdatedCellError, read_cell
from felbo.paper.runner import requested_cells
from felbo.paper.study import Study
from felbo.paper.threads import one_thread
from felbo.paper.workload import Cost, Workload, measure

CPU = "CPU, one core"
# Assumptions, not measurements: classes of GPUs by their peak in float32, the share of it that
# trainings of convolutional networks reach, and the time that any training step takes at least.
SHARE_OF_PEAK = 0.4
SECONDS_PER_STEP = 0.005
GPUS = {
    "GPU, 8 TFLOP/s": 8e12,
    "GPU, 20 TFLOP/s": 20e12,
    "GPU, 80 TFLOP/s": 80e12,
}


@dataclass(frozen=True)
class ModelPlan:
    """The cells of one model.

    Attributes:
        finished: seeds that have a valid file.
        pending: seeds that would be computed.
        seconds: of one cell by device, its training included; empty if unknown.
        memory: bytes of one process, without Python and torch themselves.
    """

    model: str
    finished: tuple[int, ...]
    pending: tuple[int, ...]
    seconds: Mapping[str, float]
    memory: float


@dataclass(frozen=True)
class Plan:
    """A run of a study that has not happened.

    Attributes:
        models: in the order in which they would be run.
        seconds: of all pending cells by device; a training that several cells need counts once,
            and not at all if its weights are kept already. Empty if unknown.
        trainings: networks that would be trained, and networks whose weights are kept already.
        basis: where the times come from; empty if there are none.
        missing: data sets that are not there, with the command that fetches them.
    """

    models: tuple[ModelPlan, ...]
    seconds: Mapping[str, float]
    trainings: tuple[int, int]
    basis: str
    missing: Mapping[str, str]


def plan(
    study: Study,
    *,
    preset: str = "paper",
    models: list[str] | None = None,
    seeds: int | None = None,
    runs: Path = Path("runs"),
) -> Plan:
    """Say what :func:`felbo.paper.reproduce` would compute; nothing is read but finished cells.

    Times are estimates. For studies that declare their workload, the operations of a training step
    and of a prediction are counted on a few inputs, a step is timed on this processor, and both are
    extrapolated; for GPUs the operations are divided by an assumed throughput. For others, the time
    of a cell is that of finished cells, in proportion to the models' relative costs.

    Raises:
        felbo.paper.runner.RequestError: unknown preset or model.
    """
    wanted = requested_cells(study, preset, models, seeds, runs)
    finished = [cell for cell in wanted if _is_finished(cell)]
    pending = [cell for cell in wanted if cell not in finished]
    names = list(dict.fromkeys(cell.model for cell in wanted))
    costs = _measured_costs(study, preset, names)
    if costs:
        total, trainings = _total(study, pending, costs, runs / "trained")
        per_cell = {
            name: _seconds(cost, len(work.trainings)) for name, (work, cost) in costs.items()
        }
        basis = "a training step of each model, measured on a few inputs and extrapolated"
    else:
        per_cell = _from_finished(study, names, finished)
        known = all(per_cell[cell.model] for cell in pending)
        total = {CPU: sum(per_cell[c.model][CPU] for c in pending)} if known else {}
        trainings = (0, 0)
        basis = "finished cells" if finished else ""
    plans = [
        ModelPlan(
            name,
            tuple(cell.seed for cell in finished if cell.model == name),
            tuple(cell.seed for cell in pending if cell.model == name),
            per_cell[name],
            costs[name][1].memory if name in costs else _data_bytes(study),
        )
        for name in names
    ]
    return Plan(tuple(plans), total, trainings, basis, _missing(study))


def _is_finished(cell: Cell) -> bool:
    try:
        return bool(read_cell(cell))
    except (FileNotFoundError, DamagedCellError, OutdatedCellError):
        return False


def _measured_costs(
    study: Study, preset: str, names: Sequence[str]
) -> dict[str, tuple[Workload, Cost]]:
    if study.workload is None:
        return {}
    settings = study.presets[preset].settings
    works = {name: study.workload(name, 0, settings) for name in names}
    with one_thread():
        return {name: (work, measure(work)) for name, work in works.items()}


def _seconds(cost: Cost, trainings: int) -> dict[str, float]:
    """Return the seconds of some trainings and one evaluation, by device."""
    # Whatever happens beside the model runs on the processor, whichever device has the model.
    training = trainings * cost.training_flops / cost.training_speed
    found = {CPU: training + cost.evaluation_flops / cost.evaluation_speed + cost.beside}
    for name, peak in GPUS.items():
        speed = SHARE_OF_PEAK * peak
        training = max(cost.training_flops / speed, cost.steps * SECONDS_PER_STEP)
        found[name] = trainings * training + cost.evaluation_flops / speed + cost.beside
    return found


def _total(
    study: Study,
    pending: Sequence[Cell],
    costs: Mapping[str, tuple[Workload, Cost]],
    folder: Path,
) -> tuple[dict[str, float], tuple[int, int]]:
    """Return the seconds of all cells by device, and how many networks are trained and kept."""
    assert study.workload is not None
    needed: set[str] = set()
    kept: set[str] = set()
    total = dict.fromkeys([CPU, *GPUS], 0.0)
    for cell in pending:
        files = set(study.workload(cell.model, cell.seed, cell.settings).trainings) - needed - kept
        there = {file for file in files if (folder / file).exists()}
        kept |= there
        needed |= files - there
        for device, seconds in _seconds(costs[cell.model][1], len(files - there)).items():
            total[device] += seconds
    return total, (len(needed), len(kept))


def _from_finished(
    study: Study, names: Sequence[str], finished: Sequence[Cell]
) -> dict[str, dict[str, float]]:
    """Return the seconds of a cell of each model; models without one by their relative cost."""
    taken: dict[str, list[float]] = {}
    for cell in finished:
        taken.setdefault(cell.model, []).append(json.loads(cell.path.read_text())["seconds"])
    if not taken:
        return {name: {} for name in names}
    rate = fmean(fmean(values) / study.models[name] for name, values in taken.items())
    return {
        name: {CPU: fmean(taken[name]) if name in taken else rate * study.models[name]}
        for name in names
    }


def _data_bytes(study: Study) -> float:
    """Return the memory of the data sets: pixels as bytes and as float32."""
    sizes = [
        (info.num_train + info.num_test) * 5.0 * info.image_shape[0] * info.image_shape[1] ** 2
        for info in (REGISTRY[name] for name in study.data)
    ]
    return sum(sizes)


def _missing(study: Study) -> dict[str, str]:
    """Return the data sets of which a file is not there, with the command that fetches them."""
    root = data_root()
    return {
        name: fetch_command(name, root)
        for name in study.data
        if not all((root / REGISTRY[name].folder / f.name).is_file() for f in REGISTRY[name].files)
    }
