"""Layers that a stochastic classifier is built from."""

from felbo.layers.dropout import ActiveDropout
from felbo.layers.rank1 import Rank1Layer
from felbo.layers.recompute import recomputed
from felbo.layers.stacked import StackedLinear, StackedMLP

__all__ = ["ActiveDropout", "Rank1Layer", "StackedLinear", "StackedMLP", "recomputed"]
