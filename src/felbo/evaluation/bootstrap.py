"""Bootstrap confidence intervals of metrics.

A resample draws n of the n items with replacement, so it is a row of weights: how often each item
was drawn. Metrics that are functions of such weights are computed for many resamples at once. The
interval lies between the quantiles (1 ∓ level) / 2 of all resamples (Efron, 1979).

Calibration errors are norms of means over items: of the vector of gaps in the bins. Noise in the
gaps makes every norm larger, that of a resample more than that of the data, so quantiles of
resamples lie above the error of the model: for a calibrated one, always. By the triangle inequality
the norms of data and model differ by at most the norm of the noise, whose quantile at the level is
estimated by the difference between resamples and data: the interval is ``value ∓ quantile``, in
[0, 1]. It holds the error of a calibrated model with a probability of the level, and that of others
more often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from felbo._numbers import whole_number
from felbo.errors import DataError
from felbo.evaluation.checks import check_fraction

# Number of weights in memory at a time: 32 MB in float64.
_BLOCK = 2**22

Measures = Callable[[Tensor], Mapping[str, Tensor]]


@dataclass(frozen=True)
class Estimate:
    """A measure on some data, with its bootstrap interval.

    Attributes:
        value: the measure on the original data.
        low: lower end of the interval.
        high: upper end.
    """

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


def bootstrap(
    measures: Measures,
    size: int,
    *,
    norms: Measures = lambda weights: {},
    resamples: int = 1000,
    level: float = 0.95,
    generator: torch.Generator | None = None,
) -> dict[str, Estimate]:
    """Return each measure with its interval: of percentiles, or around a norm.

    Args:
        measures: from weights ``[R, n]``, each row with sum n, to values ``[R]`` by name.
        size: n, the number of items.
        norms: likewise, for measures in [0, 1] that are the norm of a weighted sum over items. They
            are also called with weights less one: the norm of the difference from the data.
        resamples: total number of resamples; they are drawn in blocks of bounded memory.
        level: of the interval, a fraction.
        generator: of the resamples, on the CPU; ``None`` is torch's global generator.

    Example:
        >>> import torch
        >>> values = torch.arange(100, dtype=torch.float64)
        >>> mean = lambda weights: {"mean": weights @ values / len(values)}
        >>> found = bootstrap(mean, 100, generator=torch.Generator().manual_seed(0))
        >>> found["mean"].value
        49.5
    """
    resamples = whole_number("resamples", resamples)
    check_fraction("level", level)
    ones = torch.ones(1, size, dtype=torch.float64)
    values, of_norms = measures(ones), norms(ones)
    blocks, noises = [], []
    for weights in _weights(size, resamples, generator):
        blocks.append(measures(weights))
        noises.append(norms(weights - 1))
    tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    estimates = {}
    for name, value in values.items():
        drawn = torch.cat([block[name] for block in blocks]).double()
        _check_finite(name, value, drawn)
        low, high = torch.quantile(drawn, tails).tolist()
        estimates[name] = Estimate(float(value), low, high)
    for name, norm in of_norms.items():
        found = float(norm)
        noise = float(torch.cat([block[name] for block in noises]).quantile(level))
        estimates[name] = Estimate(found, max(found - noise, 0.0), min(found + noise, 1.0))
    return estimates


def _weights(size: int, resamples: int, generator: torch.Generator | None) -> Iterator[Tensor]:
    """Yield weights ``[R', n]`` until R rows are drawn."""
    rows = max(_BLOCK // size, 1)
    for start in range(0, resamples, rows):
        block = min(rows, resamples - start)
        taken = torch.randint(size, (block, size), generator=generator)
        places = (taken + size * torch.arange(block)[:, None]).flatten()
        yield torch.bincount(places, minlength=block * size).view(block, size).double()


def _check_finite(name: str, value: Tensor, drawn: Tensor) -> None:
    if not bool(value.isfinite().all() and drawn.isfinite().all()):
        raise DataError(
            f"{name} is not finite on these data, so it has no interval. For a log-likelihood, a "
            "label has probability 0: use a smoothing above 0."
        )
