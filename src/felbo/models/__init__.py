"""Stochastic classifiers: each wraps a network and returns samples (draws) of its logits."""

from felbo.models.base import StochasticClassifier
from felbo.models.concentration import ConcentrationNetwork
from felbo.models.dropout import MCDropout
from felbo.models.ensemble import Ensemble
from felbo.models.laplace import SubnetworkLaplace
from felbo.models.mean_field import MeanField
from felbo.models.modes import evaluation_mode, training_mode
from felbo.models.point import MAP
from felbo.models.radial import Radial
from felbo.models.rank1 import Rank1
from felbo.models.tempered import Tempered, TemperedMean
from felbo.models.unwrap import unwrap

__all__ = [
    "MAP",
    "ConcentrationNetwork",
    "Ensemble",
    "MCDropout",
    "MeanField",
    "Radial",
    "Rank1",
    "StochasticClassifier",
    "SubnetworkLaplace",
    "Tempered",
    "TemperedMean",
    "evaluation_mode",
    "training_mode",
    "unwrap",
]
