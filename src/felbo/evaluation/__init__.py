"""Prediction and its measures."""

from felbo.evaluation.metrics import Scores, score
from felbo.evaluation.predict import predict
from felbo.evaluation.prediction import Prediction

__all__ = ["Prediction", "Scores", "predict", "score"]
