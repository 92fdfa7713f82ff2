"""Priors that do not depend on x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Dirichlet

from felbo._numbers import whole_number
from felbo.errors import DataError, ShapeError
from felbo.inputs import Inputs, tensors


class DirichletPrior:
    """The same Dirichlet at every x.

    Args:
        concentration: β ``[K]``, all positive; it is copied. Values above 1 pull predictions to the
            mean of the prior, values below 1 push them to the corners of the simplex.

    Attributes:
        concentration: β ``[K]``; changes take effect at the next call.

    Example:
        >>> import torch
        >>> DirichletPrior([5.0, 5.0])(torch.zeros(3, 2)).mean
        tensor([0.5000, 0.5000])
    """

    def __init__(self, concentration: Sequence[float] | Tensor | NDArray[Any]) -> None:
        # as_tensor shares memory with a numpy array, so the copy is needed for every kind of input.
        beta = torch.as_tensor(concentration).detach().clone()
        if not beta.is_floating_point():
            beta = beta.to(torch.get_default_dtype())
        if beta.dim() != 1 or len(beta) < 2:
            raise ShapeError(
                "concentration must be a vector of K ≥ 2 numbers, one per class; "
                f"got shape {list(beta.shape)}."
            )
        if not bool((beta > 0).all()) or not bool(beta.isfinite().all()):
            raise DataError(f"Every concentration must be positive and finite, got {beta}.")
        self.concentration = beta

    def __call__(self, x: Inputs) -> Dirichlet:
        """Return a Dirichlet with batch shape [], valid for every point of ``x [S, ...]``."""
        # A copy, so that modifying the result does not change the prior, and so that a prior
        # created in inference mode can be used in training.
        beta = self.concentration.detach().to(next(tensors(x)).device, copy=True)
        return Dirichlet(beta, validate_args=False)


class UniformPrior(DirichletPrior):
    """Dir(1, …, 1): every vector of class probabilities is equally likely at every x.

    Args:
        num_classes: K.
    """

    def __init__(self, num_classes: int) -> None:
        num_classes = whole_number("num_classes", num_classes)
        if num_classes < 2:
            raise DataError(f"A classifier needs at least 2 classes, got {num_classes}.")
        super().__init__(torch.ones(num_classes))
