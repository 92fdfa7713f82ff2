"""Measurement sets: the points at which posterior and prior are compared."""

from felbo.measurement.base import (
    Augmented,
    Batch,
    Comparison,
    MeasurementLike,
    MeasurementSet,
    as_measurement_set,
    points_of,
)
from felbo.measurement.checks import checked_points
from felbo.measurement.colours import Monochrome, Noise
from felbo.measurement.elsewhere import Elsewhere, image_parts, table_parts
from felbo.measurement.filtered import PhaseNoise, RandomConvolution, Smoothed
from felbo.measurement.grid import Grid
from felbo.measurement.itemwise import ItemwiseSet
from felbo.measurement.mixture import Mixture
from felbo.measurement.pool import Pool
from felbo.measurement.rearranged import Mosaic, Rolled, ShuffledPatches
from felbo.measurement.tables import Beyond, Box, ShuffledColumns
from felbo.measurement.worst_case import WorstCase

__all__ = [
    "Augmented",
    "Batch",
    "Beyond",
    "Box",
    "Comparison",
    "Elsewhere",
    "Grid",
    "ItemwiseSet",
    "MeasurementLike",
    "MeasurementSet",
    "Mixture",
    "Monochrome",
    "Mosaic",
    "Noise",
    "PhaseNoise",
    "Pool",
    "RandomConvolution",
    "Rolled",
    "ShuffledColumns",
    "ShuffledPatches",
    "Smoothed",
    "WorstCase",
    "as_measurement_set",
    "checked_points",
    "image_parts",
    "points_of",
    "table_parts",
]
