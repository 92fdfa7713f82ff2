"""A prior whose mean is what another classifier predicts."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.distributions import Dirichlet

from felbo import dirichlet


class Classifier(Protocol):
    """Anything with scikit-learn's ``predict_proba``."""

    def predict_proba(self, X: Any) -> Any:
        """Return class probabilities ``[S, K]`` for inputs ``X [S, D]``."""


class ClassifierPrior:
    """Dirichlet with mean ``predict_proba(x)`` and a given precision.

    The last result is kept: a measurement set that returns the same tensor in every step (such as
    :class:`felbo.measurement.Grid`) asks the estimator only once.

    Args:
        estimator: a fitted object with ``predict_proba``, e.g. scikit-learn's Gaussian process or
            random forest. Its classes must be in the order of the labels 0 … K − 1.
        precision: sum of the concentration; ``None`` is K, as uninformative as the uniform prior.
        smoothing: γ of ``p ← (1 − γ) p + γ / K``, so that predictions of exactly 0 or 1 (a forest
            gives them) keep a positive concentration.

    Example:
        >>> import torch
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
        >>> ClassifierPrior(tree, precision=2.0)(torch.tensor([[0.0]])).concentration
        tensor([[1.9999e+00, 1.0000e-04]])
    """

    def __init__(
        self, estimator: Classifier, precision: float | None = None, smoothing: float = 1e-4
    ) -> None:
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                f"{type(estimator).__name__} has no predict_proba; pass a fitted classifier that "
                "has (for an SVC, build it with probability=True)."
            )
        if precision is not None and not precision > 0:
            raise ValueError(f"precision must be positive, got {precision}.")
        if not 0.0 < smoothing < 1.0:
            raise ValueError(f"smoothing must lie in (0, 1), got {smoothing}.")
        self.estimator = estimator
        self.precision = precision
        self.smoothing = smoothing
        self._last: tuple[Tensor, int, Tensor] | None = None

    def __call__(self, x: Tensor) -> Dirichlet:
        """Return the prior at ``x [S, ...]``, batch shape [S]."""
        if self._last is None or self._last[0] is not x or self._last[1] != x._version:
            self._last = (x, x._version, self._concentration(x))
        return Dirichlet(self._last[2], validate_args=False)

    def _concentration(self, x: Tensor) -> Tensor:
        features = x.detach().flatten(1).cpu().numpy()
        predicted = torch.as_tensor(self.estimator.predict_proba(features))
        probs = predicted.to(device=x.device, dtype=torch.get_default_dtype())
        if probs.dim() != 2 or len(probs) != len(x):
            raise ValueError(
                f"predict_proba should return [{len(x)}, K] probabilities, "
                f"got shape {list(probs.shape)}."
            )
        if not bool((probs >= 0).all() and ((probs.sum(-1) - 1).abs() < 1e-4).all()):
            raise ValueError(
                "predict_proba should return rows of probabilities that sum to 1, "
                f"got values from {probs.min():.3g} to {probs.max():.3g} and sums from "
                f"{probs.sum(-1).min():.3g} to {probs.sum(-1).max():.3g}."
            )
        precision = probs.shape[-1] if self.precision is None else self.precision
        return precision * dirichlet.smooth(probs, self.smoothing)
