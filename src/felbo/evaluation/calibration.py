"""Calibration errors: difference between predicted probabilities and observed frequencies.

Items are binned by a predicted probability p, and in each bin b the mean of p is compared with the
frequency of the event: ``gap_b = |mean p − frequency|``, with ``n_b`` of n items. With the norm

- ``"l1"``: ``Σ_b n_b/n gap_b``, the expected calibration error (Naeini et al., 2015);
- ``"l2"``: ``√(Σ_b n_b/n gap_b²)``, its root mean square (Hendrycks et al., 2019);
- ``"max"``: ``max_b gap_b``, the maximum calibration error (Naeini et al., 2015).

torchmetrics has all three for the top label and bins of equal width; tests compare the results. It
has no weights, so a bootstrap would take one pass per resample; hence the implementation below.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from felbo._numbers import whole_number
from felbo.evaluation.checks import probabilities_and_labels
from felbo.evaluation.prediction import Prediction
from felbo.objectives.checks import check_choice

Event = Literal["top", "class"]
Binning = Literal["width", "mass"]
Norm = Literal["l1", "l2", "max"]

# Probabilities such as 0.8 are edges of bins, and lie on either side of them by rounding errors of
# float32: whole groups of items would change their bin with the dtype.
_ROUNDING = 1e-6


class Cells(NamedTuple):
    """Items binned into cells, for C events each.

    Attributes:
        cell: of item and event ``[n, C]``, in 0 … size − 1; events do not share cells.
        gap: outcome (0 or 1) − predicted probability ``[n, C]``.
        size: number of cells, empty ones included.
    """

    cell: Tensor
    gap: Tensor
    size: int

    @property
    def counts(self) -> Tensor:
        """Number of items in each cell ``[size]``."""
        return torch.bincount(self.cell.flatten(), minlength=self.size)

    def gaps(self, weights: Tensor) -> Tensor:
        """Return the weighted sum of gaps in each cell ``[R, size]`` for weights ``[R, n]``."""
        items, events = self.cell.shape
        places = torch.stack([self.cell.flatten(), torch.arange(items).repeat_interleave(events)])
        # Sparse: one entry per item and event instead of one per item and cell.
        matrix = torch.sparse_coo_tensor(
            places, self.gap.flatten(), (self.size, items), check_invariants=False
        )
        sums: Tensor = torch.sparse.mm(matrix, weights.T.contiguous())
        return sums.T


def calibration_error(
    probs: Prediction | Tensor | Any,
    labels: Tensor | Any,
    *,
    event: Event = "top",
    binning: Binning = "width",
    norm: Norm = "l1",
    bins: int = 15,
) -> float:
    """Return a calibration error of predicted probabilities, a fraction.

    Args:
        probs: predictive ``[B, K]``, or the :class:`Prediction` that holds it.
        labels: ``[B]``, integers in 0 … K − 1.
        event: ``"top"``: the most probable class is right; ``"class"``: for every class k, the
            label is k, and the error is the mean over classes (classwise: Kull et al., 2019).
        binning: ``"width"``: bins ``[i/bins, (i + 1)/bins)``, the last one closed, where a
            probability within 1e-6 below an edge counts as the edge; ``"mass"``: the same number of
            items in each (adaptive: Nguyen and O'Connor, 2015), except that items of equal
            probability share a bin.
        norm: how the gaps of bins are combined, see above.
        bins: number of bins.

    Example:
        Eight of ten predictions with confidence 0.9 are right.

        >>> import torch
        >>> probs = torch.tensor([[0.9, 0.1]]).repeat(10, 1)
        >>> labels = torch.tensor([0] * 8 + [1] * 2)
        >>> round(calibration_error(probs, labels), 6)
        0.1
    """
    found = cells(*probabilities_and_labels(probs, labels), event, binning, bins)
    return float(error_of(found, torch.ones(1, len(found.cell), dtype=torch.float64), norm))


def cells(
    probs: Tensor, labels: Tensor, event: Event = "top", binning: Binning = "width", bins: int = 15
) -> Cells:
    """Bin items by their predicted probabilities; inputs must be checked and float64."""
    check_choice("event", event, ("top", "class"))
    check_choice("binning", binning, ("width", "mass"))
    bins = whole_number("bins", bins)
    if event == "class":
        stated, happened = probs, one_hot(labels, probs.shape[1])
    else:
        confidence, top = probs.max(-1, keepdim=True)
        stated, happened = confidence, top == labels[:, None]
    index = by_width(stated, bins) if binning == "width" else by_mass(stated, bins)
    events = stated.shape[1]
    return Cells(index + bins * torch.arange(events), happened.double() - stated, bins * events)


def by_width(stated: Tensor, bins: int) -> Tensor:
    """Return the bin of equal width of each probability."""
    return ((stated + _ROUNDING) * bins).long().clamp(max=bins - 1)


def by_mass(stated: Tensor, bins: int) -> Tensor:
    """Return the bin of equal mass of each probability ``[n, C]``, per column."""
    columns = stated.T.contiguous()
    # Equal values have the same first rank, so that the order of items does not matter.
    first_rank = torch.searchsorted(columns.sort(-1).values, columns)
    return (first_rank * bins // len(stated)).T


def error_of(found: Cells, weights: Tensor, norm: Norm) -> Tensor:
    """Return the norm of the gaps, mean over events, for weights of the items.

    Args:
        found: the items in their cells, whose counts are those of the data for all weights.
        weights: ``[R, n]``; ones give the calibration error of the data.
        norm: how the gaps of cells are combined, see above.

    Returns:
        ``[R]``.
    """
    check_choice("norm", norm, ("l1", "l2", "max"))
    items, events = found.cell.shape
    gaps = found.gaps(weights).abs()
    if norm == "l1":
        return gaps.sum(-1) / (items * events)
    counts = found.counts.double()
    # The sum of gaps of an empty cell is 0.
    gap = gaps / counts.clamp(min=1)
    per_event = (len(weights), events, -1)
    if norm == "max":
        return gap.view(per_event).amax(-1).mean(-1)
    return (counts / items * gap.square()).view(per_event).sum(-1).sqrt().mean(-1)
