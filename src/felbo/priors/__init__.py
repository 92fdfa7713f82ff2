"""Priors over functions: x → a Dirichlet over class probabilities."""

from felbo.priors.base import Prior
from felbo.priors.classifier import ClassifierPrior
from felbo.priors.constant import DirichletPrior, UniformPrior
from felbo.priors.model import ModelPrior

__all__ = ["ClassifierPrior", "DirichletPrior", "ModelPrior", "Prior", "UniformPrior"]
