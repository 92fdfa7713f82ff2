"""Objectives: what is minimised in a training step."""

from felbo.objectives.belief_matching import BeliefMatching
from felbo.objectives.evidential import Evidential
from felbo.objectives.function_space import FunctionSpaceELBO
from felbo.objectives.likelihood import NegativeLogLikelihood
from felbo.objectives.loss import Loss
from felbo.objectives.prior_network import PriorNetwork
from felbo.objectives.weight_space import WeightSpaceELBO

__all__ = [
    "BeliefMatching",
    "Evidential",
    "FunctionSpaceELBO",
    "Loss",
    "NegativeLogLikelihood",
    "PriorNetwork",
    "WeightSpaceELBO",
]
