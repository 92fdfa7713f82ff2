"""The scores by which predictions can be ranked, each larger where a prediction is less certain."""

from __future__ import annotations

from torch import Tensor

from felbo.evaluation.checks import probabilities, scores_per_item
from felbo.evaluation.prediction import Prediction


def uncertainty_scores(prediction: Prediction) -> dict[str, Tensor]:
    """Return every score that a prediction has, ``[B]`` in float64, larger is less certain.

    - ``"confidence"``: minus the maximum probability;
    - ``"total"``: entropy of the predictive;
    - ``"epistemic"``: mutual information of label and function;
    - ``"precision"``: minus the precision of the Dirichlet.

    A single draw shows no disagreement, so the last two are left out where ``is_random`` is False.

    Example:
        >>> import torch, felbo
        >>> list(uncertainty_scores(felbo.predict(torch.full((1, 5, 2), 0.5))))
        ['confidence', 'total']
        >>> list(uncertainty_scores(felbo.predict(torch.full((3, 5, 2), 0.5))))
        ['confidence', 'total', 'epistemic', 'precision']
    """
    if not isinstance(prediction, Prediction):
        raise TypeError(
            f"Expected a Prediction, as felbo.predict gives it; got {type(prediction).__name__}."
        )
    probabilities(prediction)  # refuses a prediction of nothing
    found = {"confidence": -prediction.confidence, "total": prediction.total}
    if prediction.is_random:
        found |= {"epistemic": prediction.epistemic, "precision": -prediction.precision}
    return {name: scores_per_item(values, name) for name, values in found.items()}
