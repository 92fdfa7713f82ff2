"""Prediction methods of the classifier: labels, probabilities, Dirichlets, uncertainties."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from felbo._numbers import refuse_booleans
from felbo.errors import SettingError
from felbo.estimator.learner import Learner
from felbo.evaluation import Prediction
from felbo.objectives.checks import check_choice

Array = NDArray[Any]
Kind = Literal["total", "aleatoric", "epistemic", "precision"]

KINDS: dict[str, Callable[[Prediction], Tensor]] = {
    "total": lambda prediction: prediction.total,
    "aleatoric": lambda prediction: prediction.aleatoric,
    "epistemic": lambda prediction: prediction.epistemic,
    "precision": lambda prediction: prediction.precision,
}


class PredictingMixin(ClassifierMixin):  # type: ignore[misc]
    """Prediction methods of a fitted classifier, for new rows ``X [B, D]``."""

    classes_: Array
    learner_: Learner

    @abstractmethod
    def _table(self, X: Any, *, reset: bool) -> Any:
        """Return a table whose columns are those of the training."""

    def predict(
        self,
        X: Any,
        reject_above: float | None = None,
        kind: Kind = "total",
        reject_label: Any = None,
    ) -> Array:
        """Return the most probable label of each row, or ``reject_label`` where it is unsure.

        Args:
            X: table ``[B, D]``.
            reject_above: rows whose uncertainty is larger are rejected; ``None`` rejects none.
            kind: of uncertainty, in nats: ``"total"``, ``"aleatoric"`` or ``"epistemic"``.
            reject_label: stands for the label of rejected rows; it must not be a label itself.

        Returns:
            Labels ``[B]``; an array of objects where ``reject_label`` is of another type.
        """
        if reject_above is None:
            (positions,) = self._collect(X, lambda prediction: prediction.labels)
            return np.asarray(self.classes_[positions])
        check_choice("kind", kind, ["total", "aleatoric", "epistemic"])
        refuse_booleans(reject_above=reject_above)
        if np.isnan(reject_above):
            raise SettingError("reject_above is NaN, and no uncertainty is larger: pass a number.")
        positions, values = self._collect(X, lambda prediction: prediction.labels, KINDS[kind])
        if reject_label in self.classes_.tolist():
            raise SettingError(f"reject_label={reject_label!r} is one of the labels; take another.")
        labels = self.classes_[positions]
        if np.isnan(values).any():
            raise SettingError("One draw has no epistemic uncertainty: reject by kind='total'.")
        if np.asarray(reject_label).dtype.kind != labels.dtype.kind:
            labels = labels.astype(object)
        return np.where(values > reject_above, reject_label, labels)

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities ``[B, K]``, columns in the order of ``classes_``."""
        (probs,) = self._collect(X, lambda prediction: prediction.probs)
        return probs

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of :meth:`predict_proba`; zeros count as the smallest number."""
        probs = self.predict_proba(X)
        return np.asarray(np.log(np.maximum(probs, np.finfo(probs.dtype).tiny)))

    def predict_dirichlet(self, X: Any) -> Array:
        """Return the concentration of the Dirichlet behind each prediction ``[B, K]``.

        Its mean is the prediction, its sum the precision: large where draws of the model agree.
        """
        (concentration,) = self._collect(X, lambda prediction: prediction.concentration)
        return concentration

    def uncertainty(self, X: Any, kind: Kind = "total") -> Array:
        """Return the uncertainty of the prediction for each row ``[B]``.

        Args:
            X: table ``[B, D]``.
            kind: ``"total"``, the entropy of the prediction in nats; its two parts,
                ``"aleatoric"``, which more training rows would leave, and ``"epistemic"``, which
                they would take; or ``"precision"`` of the Dirichlet, small where it is unsure.
        """
        check_choice("kind", kind, list(KINDS))
        (values,) = self._collect(X, KINDS[kind])
        return values

    def _collect(self, X: Any, *parts: Callable[[Prediction], Tensor]) -> list[Array]:
        """Predict rows once, and return some parts of the predictions as arrays ``[B, ...]``."""
        check_is_fitted(self)
        predictions = self.learner_.predictions(self._table(X, reset=False))
        chunks = [[part(found).cpu().numpy() for part in parts] for found in predictions]
        return [np.concatenate(arrays) for arrays in zip(*chunks, strict=True)]
