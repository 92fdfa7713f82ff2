"""Prediction, metrics (calibration, selective prediction, OOD detection) and attacks."""

from felbo.evaluation.attacks import fgsm, pgd
from felbo.evaluation.bootstrap import Estimate, bootstrap
from felbo.evaluation.calibrate import calibrate
from felbo.evaluation.calibration import calibration_error
from felbo.evaluation.conformal import ConformalSets, Coverage, conformal
from felbo.evaluation.detection import Detection, detection
from felbo.evaluation.evaluate import Evaluation, evaluate
from felbo.evaluation.metrics import Scores, score
from felbo.evaluation.predict import predict
from felbo.evaluation.prediction import Prediction
from felbo.evaluation.quality import Quality, Selective, quality
from felbo.evaluation.reliability import Reliability, reliability
from felbo.evaluation.selective import RiskCoverage, risk_coverage
from felbo.evaluation.uncertainty_scores import uncertainty_scores

__all__ = [
    "ConformalSets",
    "Coverage",
    "Detection",
    "Estimate",
    "Evaluation",
    "Prediction",
    "Quality",
    "Reliability",
    "RiskCoverage",
    "Scores",
    "Selective",
    "bootstrap",
    "calibrate",
    "calibration_error",
    "conformal",
    "detection",
    "evaluate",
    "fgsm",
    "pgd",
    "predict",
    "quality",
    "reliability",
    "risk_coverage",
    "score",
    "uncertainty_scores",
]
