"""Compare measured numbers with the published ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from felbo.paper.published import Published, published
from felbo.paper.results import Summary

# Differences below this always agree: some standard errors are as small as 0.01, less than the
# effect of another library version.
TOLERANCE = {"accuracy": 1.0, "log_likelihood": 0.10, "ece": 0.02}
STANDARD_ERRORS = 3.0
# For numbers in the paper's text, which have no standard error.
RELATIVE_TOLERANCE = 0.1
BAND_WIDENING = 1.2


class Comparison(NamedTuple):
    """One measured cell and the published one.

    Attributes:
        deviations: difference in units of the combined standard error; NaN for numbers that were
            not published with one.
        agrees: within ``max(3 combined standard errors, tolerance)`` of a table, within the band
            of a figure widened by 20 %, or within 10 % of a number from the text.
    """

    measured: Summary
    published: Published
    difference: float
    deviations: float
    agrees: bool


def compare(summaries: Sequence[Summary], experiment: str = "") -> list[Comparison]:
    """Pair every measured cell that was published with its published value.

    Args:
        summaries: the measured cells of one study.
        experiment: of the paper; empty for the one that the cells name.
    """
    if not summaries:
        return []
    reference = published(experiment or summaries[0].experiment)
    known = {(p.metric, p.model, p.shift): p for p in reference}
    return [
        _compare_cell(summary, known[key])
        for summary in summaries
        if (key := (summary.metric, summary.model, summary.shift)) in known
    ]


def _compare_cell(measured: Summary, reference: Published) -> Comparison:
    difference = measured.mean - reference.mean
    if reference.band is not None:
        low, high = reference.band
        half_width = BAND_WIDENING * (high - low) / 2
        agrees = abs(measured.mean - (low + high) / 2) <= half_width
        return Comparison(measured, reference, difference, math.nan, agrees)
    if reference.standard_error is None:
        agrees = abs(difference) <= RELATIVE_TOLERANCE * abs(reference.mean)
        return Comparison(measured, reference, difference, math.nan, agrees)
    own = 0.0 if math.isnan(measured.standard_error) else measured.standard_error
    combined = math.hypot(own, reference.standard_error)
    deviations = difference / combined if combined > 0 else math.copysign(math.inf, difference)
    limit = max(STANDARD_ERRORS * combined, TOLERANCE.get(measured.metric, 0.0))
    return Comparison(measured, reference, difference, deviations, abs(difference) <= limit)
