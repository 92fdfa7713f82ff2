"""Objectives: loss functions of a training step."""

from felbo.objectives.base import Loss, LossFunction, Objective, as_objective
from felbo.objectives.belief_matching import BeliefMatching
from felbo.objectives.evidential import Evidential
from felbo.objectives.function_space import FunctionSpaceELBO, Term, function_space_kl
from felbo.objectives.likelihood import NegativeLogLikelihood, expected_nll
from felbo.objectives.outlier_exposure import OutlierExposure
from felbo.objectives.prior_network import PriorNetwork
from felbo.objectives.weight_space import WeightSpaceELBO

__all__ = [
    "BeliefMatching",
    "Evidential",
    "FunctionSpaceELBO",
    "Loss",
    "LossFunction",
    "NegativeLogLikelihood",
    "Objective",
    "OutlierExposure",
    "PriorNetwork",
    "Term",
    "WeightSpaceELBO",
    "as_objective",
    "expected_nll",
    "function_space_kl",
]
