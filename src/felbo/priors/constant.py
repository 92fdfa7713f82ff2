"""Priors that do not look at x."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Dirichlet


class DirichletPrior:
    """The same Dirichlet at every x.

    Args:
        concentration: β ``[K]``, all positive. Values above 1 pull predictions to the mean of the
            prior, values below 1 push them to the corners.

    Example:
        >>> import torch
        >>> DirichletPrior([5.0, 5.0])(torch.zeros(3, 2)).mean
        tensor([0.5000, 0.5000])
    """

    def __init__(self, concentration: Sequence[float] | Tensor) -> None:
        beta = torch.as_tensor(concentration).detach()
        if not beta.is_floating_point():
            beta = beta.to(torch.get_default_dtype())
        if beta.dim() != 1 or len(beta) < 2:
            raise ValueError(
                "concentration must be a vector of K ≥ 2 numbers, one per class; "
                f"got shape {list(beta.shape)}."
            )
        if not bool((beta > 0).all()) or not bool(beta.isfinite().all()):
            raise ValueError(f"Every concentration must be positive and finite, got {beta}.")
        self.concentration = beta
        self._dirichlet = Dirichlet(beta, validate_args=False)

    def __call__(self, x: Tensor) -> Dirichlet:
        """Return a Dirichlet with batch shape [], valid for every point of ``x [S, ...]``."""
        if self.concentration.device != x.device:
            self.concentration = self.concentration.to(x.device)
        if self._dirichlet.concentration is not self.concentration:
            self._dirichlet = Dirichlet(self.concentration, validate_args=False)
        return self._dirichlet


class UniformPrior(DirichletPrior):
    """Dir(1, …, 1): every vector of class probabilities is equally likely at every x.

    Args:
        num_classes: K.
    """

    def __init__(self, num_classes: int) -> None:
        if num_classes < 2:
            raise ValueError(f"A classifier needs at least 2 classes, got {num_classes}.")
        super().__init__(torch.ones(num_classes))
