"""Objectives: what is minimised in a training step."""

from felbo.objectives.function_space import FunctionSpaceELBO
from felbo.objectives.likelihood import NegativeLogLikelihood
from felbo.objectives.loss import Loss

__all__ = ["FunctionSpaceELBO", "Loss", "NegativeLogLikelihood"]
