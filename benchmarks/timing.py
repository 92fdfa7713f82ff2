"""Two sides measured alternately in one process, so that a noisy machine hits both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Side = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        what: the side that felbo answers for.
        against: the other side.
        goal: e.g. ``"≤ 1.20"`` (ours / theirs) or ``"≥ 2.0"`` (theirs / ours).
        ratio: median over rounds, in the direction of the goal.
        low: first quartile of the ratio.
        high: third quartile of the ratio.
        ours: median of our side; theirs likewise.
        note: what else was checked or is worth knowing.
        unit: of ours and theirs.
        plain: the ratio with the plain implementation in place of the fused one.
    """

    what: str
    against: str
    goal: str
    ratio: float
    low: float
    high: float
    ours: float
    theirs: float
    note: str = ""
    unit: str = "s"
    plain: float | None = None

    @property
    def reached(self) -> bool:
        """Whether the median meets the goal."""
        limit = float(self.goal.split()[1].replace(",", ""))
        return self.ratio <= limit if self.goal.startswith("≤") else self.ratio >= limit


def seconds(side: Side, number: int) -> float:
    """Return the mean duration of ``number`` calls."""
    start = time.perf_counter()
    for _ in range(number):
        side()
    return (time.perf_counter() - start) / number


def compare(
    what: str,
    ours: Side,
    against: str,
    theirs: Side,
    goal: str,
    *,
    rounds: int = 15,
    number: int = 20,
    theirs_number: int | None = None,
    note: str = "",
) -> Row:
    """Measure both sides in turns and return their ratio.

    Args:
        what: name of our side.
        ours: a call of our side.
        against: name of the other side.
        theirs: a call of the other side.
        goal: ``"≤ x"`` for ours / theirs, ``"≥ x"`` for theirs / ours.
        rounds: pairs of measurements; the first is dropped as warm-up.
        number: calls per measurement.
        theirs_number: calls per measurement of the other side, if it is much slower.
        note: kept with the row.
    """
    pairs = []
    for index in range(rounds + 1):
        sides = [
            ("ours", ours, number),
            ("theirs", theirs, theirs_number or number),
        ]
        # Whoever comes second finds warmer caches: take turns.
        timed = {name: seconds(side, n) for name, side, n in (sides if index % 2 else sides[::-1])}
        pairs.append((timed["ours"], timed["theirs"]))
    pairs = pairs[1:]
    smaller_is_better = goal.startswith("≤")
    ratios = [a / b if smaller_is_better else b / a for a, b in pairs]
    low, middle, high = quartiles(ratios)
    return Row(
        what,
        against,
        goal,
        middle,
        low,
        high,
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        note,
    )


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Return the three quartiles; of a single value, that value thrice."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high
