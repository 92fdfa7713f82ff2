"""Prior whose mean is the prediction of another classifier, such as a random forest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Dirichlet

from felbo import dirichlet
from felbo._numbers import refuse_booleans
from felbo.dirichlet.validation import SUM_TOLERANCE
from felbo.errors import DataError, InputTypeError, ShapeError


class Classifier(Protocol):
    """Anything with scikit-learn's ``predict_proba``."""

    def predict_proba(self, X: Any) -> Any:
        """Return class probabilities ``[S, K]`` for inputs ``X [S, D]``."""


@runtime_checkable
class Labelled(Protocol):
    """A fitted scikit-learn classifier: ``classes_`` has the label of each column."""

    classes_: Any


class ClassifierPrior:
    """Dirichlet with mean ``predict_proba(x)`` and a given precision.

    ``β(x) = precision · [(1 − γ) p(x) + γ / K]``

    p(x) has one column per label 0 … K − 1: the columns of ``predict_proba`` are put in that order
    by the estimator's ``classes_``, and a class that the estimator was not fitted on has p = 0. An
    estimator without ``classes_`` must return its columns in the order of the labels.

    The estimator is called every time, so that a refit takes effect at once. If the points are
    always the same, call it once and reuse the result, since any callable is a prior:
    ``beliefs = prior(points)`` and ``FunctionSpaceELBO(lambda x: beliefs, ...)``.

    Args:
        estimator: a fitted object with ``predict_proba``, e.g. scikit-learn's Gaussian process or
            random forest.
        precision: sum of the concentration; ``None`` is K, as uninformative as the uniform prior.
        smoothing: γ, so that predictions of exactly 0 or 1 (as from a random forest) have a
            positive concentration.
        num_classes: K; ``None`` takes the number of the estimator's classes. Required if the
            estimator was fitted on some of the classes only.
        classes: the estimator's labels in the order of the labels 0 … K − 1, for an estimator that
            was fitted on strings or other labels.

    Example:
        >>> import torch
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0]], ["wolf", "dog"])
        >>> prior = ClassifierPrior(tree, precision=2.0, classes=["wolf", "dog"])
        >>> prior(torch.tensor([[0.0]])).concentration
        tensor([[1.9999e+00, 1.0000e-04]])
    """

    def __init__(
        self,
        estimator: Classifier,
        precision: float | None = None,
        smoothing: float = 1e-4,
        *,
        num_classes: int | None = None,
        classes: Sequence[Any] | None = None,
    ) -> None:
        if not hasattr(estimator, "predict_proba"):
            raise InputTypeError(
                f"{type(estimator).__name__} has no predict_proba; pass a fitted classifier with "
                "that method (for an SVC, build it with probability=True)."
            )
        _check_settings(precision, smoothing)
        if classes is not None and len(set(classes)) != len(classes):
            raise DataError(f"classes must name each label once, got {list(classes)}.")
        if classes is not None and num_classes not in (None, len(classes)):
            raise DataError(f"classes names {len(classes)} labels, num_classes is {num_classes}.")
        self.estimator = estimator
        self.precision = precision
        self.smoothing = smoothing
        self.classes = None if classes is None else list(classes)
        self.num_classes = num_classes if classes is None else len(classes)
        if isinstance(estimator, Labelled):
            self._columns(len(estimator.classes_))  # raises if the labels do not match

    def __call__(self, x: Tensor) -> Dirichlet:
        """Return the prior at ``x [S, ...]``, batch shape [S]."""
        if not isinstance(x, Tensor):
            raise InputTypeError(
                "ClassifierPrior takes points that are one tensor [S, ...]; for inputs of several "
                f"tensors write a prior of your own (got {type(x).__name__})."
            )
        _check_settings(self.precision, self.smoothing)
        predicted = self._predict(x)
        columns = self._columns(predicted.shape[-1])
        classes = self.num_classes or predicted.shape[-1]
        probs = predicted.new_zeros(len(x), classes).index_copy_(1, columns.to(x.device), predicted)
        precision = classes if self.precision is None else self.precision
        beta = precision * dirichlet.smooth(probs, self.smoothing)
        return Dirichlet(beta, validate_args=False)

    def _predict(self, x: Tensor) -> Tensor:
        """Call the estimator; raise unless it returns probabilities ``[S, columns]``."""
        features = x.detach().flatten(1).cpu()
        if features.dtype is torch.bfloat16:  # unknown to numpy
            features = features.float()
        answer = self.estimator.predict_proba(features.numpy())
        if not isinstance(answer, Tensor):
            answer = torch.from_numpy(np.array(answer, dtype=np.float64))
        probs = answer.detach().to(device=x.device, dtype=torch.get_default_dtype())
        if probs.dim() != 2 or len(probs) != len(x):
            raise ShapeError(
                f"predict_proba should return [{len(x)}, K] probabilities, "
                f"got shape {list(probs.shape)}."
            )
        if not bool((probs >= 0).all() and ((probs.sum(-1) - 1).abs() < SUM_TOLERANCE).all()):
            raise DataError(
                "predict_proba should return rows of probabilities that sum to 1, "
                f"got values from {probs.min():.3g} to {probs.max():.3g} and sums from "
                f"{probs.sum(-1).min():.3g} to {probs.sum(-1).max():.3g}."
            )
        return probs

    def _columns(self, count: int) -> Tensor:
        """Return the label 0 … K − 1 of each of the ``count`` columns of ``predict_proba``."""
        if not isinstance(self.estimator, Labelled):
            if self.classes is not None or self.num_classes not in (None, count):
                raise DataError(
                    f"{type(self.estimator).__name__} has no classes_ that says which label each "
                    f"of its {count} columns is: make it give {self.num_classes} columns in the "
                    "order of the labels 0 … K − 1, and omit `classes`."
                )
            return torch.arange(count)
        labels = np.asarray(self.estimator.classes_)
        if labels.shape != (count,):
            raise ShapeError(
                f"predict_proba gives {count} columns, but classes_ has shape {labels.shape}; "
                "only classifiers with a single output can be a prior."
            )
        if self.classes is not None:
            return _positions(labels.tolist(), self.classes)
        return _integers(labels, self.num_classes)


def _positions(labels: list[Any], order: list[Any]) -> Tensor:
    """Return the position of each label in the given order."""
    unknown = [label for label in labels if label not in order]
    if unknown:
        raise DataError(
            f"The estimator has the labels {unknown}, which are not among classes={order}."
        )
    return torch.tensor([order.index(label) for label in labels])


def _integers(labels: np.ndarray[Any, Any], num_classes: int | None) -> Tensor:
    """Return the labels themselves if they are integers 0 … K − 1, else raise."""
    if labels.dtype.kind not in "iu":
        raise DataError(
            f"The estimator's labels are {labels.tolist()}, and nothing says which of them is "
            "label 0, which 1, …: pass classes=[...] with its labels in the order 0 … K − 1."
        )
    classes = len(labels) if num_classes is None else num_classes
    if labels.min() < 0 or labels.max() >= classes:
        raise DataError(
            f"The estimator's labels are {labels.tolist()}, which are not within "
            f"0 … {classes - 1}. If it was fitted on some of the classes only, pass num_classes=K; "
            "if its labels are other numbers, pass classes=[...] in the order 0 … K − 1."
        )
    return torch.as_tensor(labels.astype(np.int64))


def _check_settings(precision: float | None, smoothing: float) -> None:
    refuse_booleans(precision=precision, smoothing=smoothing)
    if precision is not None and not 0 < precision < float("inf"):
        raise DataError(f"precision must be positive and finite, got {precision}.")
    if not 0.0 < smoothing < 1.0:
        raise DataError(f"smoothing must lie in (0, 1), got {smoothing}.")
