"""Stochastic classifiers: each turns a network into draws of its logits."""

from felbo.models.base import StochasticClassifier
from felbo.models.dropout import MCDropout
from felbo.models.ensemble import Ensemble
from felbo.models.point import MAP

__all__ = ["MAP", "Ensemble", "MCDropout", "StochasticClassifier"]
