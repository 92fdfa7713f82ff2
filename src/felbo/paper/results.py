"""Results of a study: per seed, and their mean, standard error and percentiles over seeds."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from felbo._files import write_atomically
from felbo.errors import FelboError

Row = TypeVar("Row", bound=tuple[object, ...])


class Observation(NamedTuple):
    """One value measured by a cell; ``shift`` is the angle, number of classes or step."""

    metric: str
    shift: float
    value: float


class Raw(NamedTuple):
    """An observation with the cell it came from."""

    experiment: str
    metric: str
    model: str
    shift: float
    seed: int
    value: float


class Summary(NamedTuple):
    """Mean and standard error over seeds, the columns of the published tables, and percentiles.

    Attributes:
        p10: 10th percentile over seeds, interpolated linearly between neighbouring values; with
            the median and ``p90`` it describes curves whose distribution over seeds is skewed.
    """

    experiment: str
    metric: str
    model: str
    shift: float
    mean: float
    standard_error: float
    seeds: int
    p10: float
    median: float
    p90: float

    @property
    def deviation(self) -> float:
        """Standard deviation over seeds."""
        return self.standard_error * math.sqrt(self.seeds)


def summarise(rows: Iterable[Raw]) -> list[Summary]:
    """Average over seeds, in the order in which series and shifts first appear.

    The standard error is ``s / √n`` with the unbiased s, and NaN for a single seed.
    """
    groups: dict[tuple[str, str, str, float], list[float]] = defaultdict(list)
    for row in rows:
        groups[row.experiment, row.metric, row.model, row.shift].append(row.value)
    summaries = []
    for key, values in groups.items():
        n = len(values)
        mean = math.fsum(values) / n
        spread = math.fsum((v - mean) ** 2 for v in values)
        error = math.sqrt(spread / (n - 1) / n) if n > 1 else math.nan
        p10, median, p90 = (float(p) for p in np.percentile(values, (10, 50, 90)))
        summaries.append(Summary(*key, mean, error, n, p10, median, p90))
    return summaries


def write_csv(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Write rows to a CSV file, atomically; floats with six significant digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in row])
    write_atomically(path, text.getvalue())


class DamagedTableError(FelboError, ValueError):
    """A table of results cannot be read."""


def read_summaries(path: Path) -> list[Summary]:
    """Read summaries from a file written by :func:`write_csv`.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedTableError: a column is missing, a value is no number, or there are no rows.
    """
    name = path.stem.replace("_", "-")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; run `felbo reproduce {name}` first.")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            found = [_summary(row) for row in csv.DictReader(file, strict=True)]
        if not found:
            raise ValueError("it has no rows")
        return found
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DamagedTableError(
            f"{path} is damaged ({reason}). `felbo reproduce {name}` writes it anew."
        ) from error


def _summary(row: dict[str, str]) -> Summary:
    numbers = ("shift", "mean", "standard_error", "p10", "median", "p90")
    shift, mean, error, p10, median, p90 = (float(row[name]) for name in numbers)
    names = row["experiment"], row["metric"], row["model"]
    return Summary(*names, shift, mean, error, int(row["seeds"]), p10, median, p90)
