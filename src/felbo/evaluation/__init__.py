"""Prediction and its measures."""

from felbo.evaluation.metrics import Scores, score
from felbo.evaluation.predict import Prediction, predict

__all__ = ["Prediction", "Scores", "predict", "score"]
