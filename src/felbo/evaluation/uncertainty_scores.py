"""Uncertainty scores of a prediction, larger for less certain items."""

from __future__ import annotations

from torch import Tensor

from felbo.errors import InputTypeError
from felbo.evaluation.checks import probabilities, scores_per_item
from felbo.evaluation.prediction import Prediction


def uncertainty_scores(prediction: Prediction) -> dict[str, Tensor]:
    """Return all uncertainty scores of a prediction by name, each ``[B]`` in float64.

    - ``"confidence"``: minus the maximum probability;
    - ``"total"``: entropy of the predictive;
    - ``"epistemic"``: mutual information of label and function;
    - ``"precision"``: minus the precision of the Dirichlet.

    The last two are omitted for a single draw (``is_random`` is False).

    Example:
        >>> import torch, felbo
        >>> list(uncertainty_scores(felbo.predict(torch.full((1, 5, 2), 0.5))))
        ['confidence', 'total']
        >>> list(uncertainty_scores(felbo.predict(torch.full((3, 5, 2), 0.5))))
        ['confidence', 'total', 'epistemic', 'precision']
    """
    if not isinstance(prediction, Prediction):
        raise InputTypeError(
            f"Expected a Prediction, as felbo.predict gives it; got {type(prediction).__name__}."
        )
    probabilities(prediction)  # raises for an empty prediction
    found = {"confidence": -prediction.confidence, "total": prediction.total}
    if prediction.is_random:
        found |= {"epistemic": prediction.epistemic, "precision": -prediction.precision}
    return {name: scores_per_item(values, name) for name, values in found.items()}
