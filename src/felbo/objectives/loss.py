"""What every objective returns."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Loss(NamedTuple):
    """A loss to minimise and the two terms it was made of, all scalars.

    Attributes:
        total: what to call ``backward`` on.
        nll: mean negative log-likelihood of the labels.
        kl: divergence to the prior, before it is weighted.
    """

    total: Tensor
    nll: Tensor
    kl: Tensor
