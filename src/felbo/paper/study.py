"""Declaration of an experiment: cells of (model, seed), each with results over shifts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from felbo.errors import FelboError
from felbo.paper.results import Observation, Summary
from felbo.paper.workload import Workload


class UnknownSettingError(FelboError, ValueError):
    """A study has no setting of this name."""


class Claim(NamedTuple):
    """A qualitative statement of the paper, and whether it holds for the measured numbers."""

    text: str
    holds: bool


@dataclass(frozen=True)
class Preset:
    """Size of a run of a study.

    Attributes:
        seeds: number of seeds, 0 … seeds − 1.
        settings: passed unchanged to every cell; plain numbers, strings and tuples.
    """

    seeds: int
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Study:
    """One experiment: declared here, run by :mod:`felbo.paper.runner`.

    Attributes:
        name: as typed on the command line, with hyphens.
        title: heading of the figure.
        models: the series in the order of the legend, each with the relative cost of a cell.
        presets: ``smoke`` (seconds), ``cpu`` (reduced), ``paper`` (full protocol).
        run: ``run(model, seed, settings)`` trains and measures one cell.
        draw: ``draw(summaries, stem)`` writes the figure.
        claims: checks the paper's statements on the measured numbers.
        data: names of the data sets it reads, which are loaded before any cell is run.
        compared_with: the experiment of the paper with which results are compared; empty for the
            one of the same name.
        workload: ``workload(model, seed, settings)`` says what a cell computes, for ``--dry-run``;
            ``None`` for studies whose time is estimated from finished cells only.
        uses: ``uses(model, settings)`` returns the settings that a model depends on. Its cells stay
            valid when others change.
    """

    name: str
    title: str
    models: Mapping[str, float]
    presets: Mapping[str, Preset]
    run: Callable[[str, int, Mapping[str, Any]], list[Observation]]
    draw: Callable[[Sequence[Summary], str], None]
    claims: Callable[[Sequence[Summary]], list[Claim]] = lambda summaries: []
    data: tuple[str, ...] = ()
    compared_with: str = ""
    workload: Callable[[str, int, Mapping[str, Any]], Workload] | None = None
    uses: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = lambda model, settings: settings

    @property
    def key(self) -> str:
        """Name in file names and in the ``experiment`` column."""
        return self.name.replace("-", "_")

    def with_setting(self, name: str, value: Any) -> Self:
        """Return the study with another value of one setting in every preset.

        Raises:
            UnknownSettingError: the study has no such setting.
        """
        if not all(name in preset.settings for preset in self.presets.values()):
            raise UnknownSettingError(f"{self.name} has no setting {name!r}.")
        changed = {
            key: replace(preset, settings={**preset.settings, name: value})
            for key, preset in self.presets.items()
        }
        return replace(self, presets=changed)
