"""Random generators and counters inside objectives, loaders and augmentations."""

from __future__ import annotations

import functools
import random
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from felbo.measurement import MeasurementSet
from felbo.objectives import Objective

Source = torch.Generator | np.random.Generator | np.random.RandomState | random.Random
# Containers with more items are data, in which nobody keeps a generator.
MANY = 1000


def find_generators(*values: Any) -> list[Source]:
    """Return the random generators inside objects, each once, in a fixed order.

    Attributes, containers, closures and partial functions are searched; tensors and modules are
    not.

    Example:
        >>> import torch, felbo
        >>> generator = torch.Generator()
        >>> points = felbo.measurement.Elsewhere(generator=generator)
        >>> find_generators([points, lambda x: points(x)]) == [generator]
        True
    """
    found = find_parts(*values)
    # The system's own random numbers have no state.
    return [p for p in found if isinstance(p, Source) and not isinstance(p, random.SystemRandom)]


def find_objectives(objective: Objective) -> list[Objective]:
    """Return an objective and those that it is made of, also inside a function."""
    return [part for part in find_parts(objective) if isinstance(part, Objective)]


def find_counters(*values: Any) -> list[Objective | MeasurementSet]:
    """Return the objectives and measurement sets inside objects, whose numbers may change."""
    return [p for p in find_parts(*values) if isinstance(p, Objective | MeasurementSet)]


class ObjectiveState:
    """Random generators and counters of an objective, as they are now.

    Args:
        objective: with its measurement sets.
    """

    def __init__(self, objective: Objective) -> None:
        self._generators = [(source, get_state(source)) for source in find_generators(objective)]
        self._counters = [(part, numbers(part)) for part in find_counters(objective)]

    def put_back(self) -> None:
        """Restore all of them."""
        for source, state in self._generators:
            set_state(source, state)
        for part, values in self._counters:
            vars(part).update(values)


@contextmanager
def state_kept(objective: Objective) -> Iterator[None]:
    """Context manager: restore random generators and counters of an objective afterwards."""
    before = ObjectiveState(objective)
    try:
        yield
    finally:
        before.put_back()


def numbers(part: Any) -> dict[str, Any]:
    """Return the attributes of an object that are numbers, such as counters of steps."""
    return {k: v for k, v in vars(part).items() if isinstance(v, bool | int | float)}


def find_parts(*values: Any) -> list[Any]:
    """Return objects and everything that they hold, each once, in a fixed order."""
    return list(_walk(values, set()))


def _walk(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yield a value and what it holds, depth first."""
    if id(value) in seen or isinstance(value, str | bytes | int | float | Tensor | type):
        return
    seen.add(id(value))
    yield value
    for part in _parts(value):
        yield from _walk(part, seen)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Source | nn.Module | types.ModuleType | np.ndarray):
        return []
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__self__]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        return [*cells, *(value.__defaults__ or ())]
    if isinstance(value, Mapping | list | tuple):
        parts = list(value.values()) if isinstance(value, Mapping) else list(value)
        return parts if len(parts) <= MANY else []
    return list(vars(value).values()) if hasattr(value, "__dict__") else []


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a variable that was not set yet
        return False


def get_state(source: Source) -> Any:
    """Return the state of a generator, as tensors, arrays and numbers."""
    if isinstance(source, torch.Generator):
        return source.get_state()
    if isinstance(source, np.random.Generator):
        return source.bit_generator.state
    if isinstance(source, np.random.RandomState):
        return source.get_state(legacy=False)
    return source.getstate()


def set_state(source: Source, state: Any) -> None:
    """Give a generator the state that :func:`get_state` returned."""
    if isinstance(source, torch.Generator):
        source.set_state(state)
    elif isinstance(source, np.random.Generator):
        source.bit_generator.state = state
    elif isinstance(source, np.random.RandomState):
        source.set_state(state)
    else:
        source.setstate(state)


def global_generators() -> list[Source]:
    """Return the generators that ``random`` and ``numpy.random`` share with everybody."""
    # Their functions are methods of these two.
    return [random.random.__self__, np.random.random_sample.__self__]  # type: ignore[attr-defined]
