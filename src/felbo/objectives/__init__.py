"""Objectives: what is minimised in a training step."""

from felbo.objectives.function_space import FunctionSpaceELBO
from felbo.objectives.likelihood import NegativeLogLikelihood
from felbo.objectives.loss import Loss
from felbo.objectives.weight_space import WeightSpaceELBO

__all__ = ["FunctionSpaceELBO", "Loss", "NegativeLogLikelihood", "WeightSpaceELBO"]
