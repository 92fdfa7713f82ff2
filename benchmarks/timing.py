"""Alternating measurement of two sides in one process, so that noise affects both equally."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Side = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One row of the results table.

    Attributes:
        what: felbo's side.
        against: the baseline.
        goal: e.g. ``"≤ 1.20"`` (ours / theirs) or ``"≥ 2.0"`` (theirs / ours).
        ratio: median over rounds, in the direction of the goal.
        low: first quartile of the ratio.
        high: third quartile of the ratio.
        ours: median of felbo's side.
        theirs: median of the baseline.
        note: additional results.
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
        """True if the median meets the goal."""
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
    """Measure both sides alternately and return their ratio.

    Args:
        what: name of felbo's side.
        ours: runs felbo's side once.
        against: name of the baseline.
        theirs: runs the baseline once.
        goal: ``"≤ x"`` for ours / theirs, ``"≥ x"`` for theirs / ours.
        rounds: pairs of measurements; the first is dropped as warm-up.
        number: calls per measurement.
        theirs_number: calls per measurement of the baseline, if it is much slower.
        note: of the row.
    """
    pairs = []
    for index in range(rounds + 1):
        sides = [
            ("ours", ours, number),
            ("theirs", theirs, theirs_number or number),
        ]
        # The second side finds warmer caches: alternate the order.
        order = sides if index % 2 else sides[::-1]
        timed = {name: seconds(side, n) for name, side, n in order}
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
    """Return the three quartiles; for a single value, that value three times."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high
