"""Prediction and its measures, and attacks that challenge it."""

from felbo.evaluation.attacks import fgsm, pgd
from felbo.evaluation.metrics import Scores, score
from felbo.evaluation.predict import predict
from felbo.evaluation.prediction import Prediction

__all__ = ["Prediction", "Scores", "fgsm", "pgd", "predict", "score"]
