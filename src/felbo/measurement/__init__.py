"""Measurement sets: at which points posterior and prior are compared."""

from felbo.measurement.augmented import Augmented
from felbo.measurement.base import Batch, MeasurementSet, Mixture
from felbo.measurement.grid import Grid
from felbo.measurement.pool import Pool

__all__ = ["Augmented", "Batch", "Grid", "MeasurementSet", "Mixture", "Pool"]
