"""The 19 corruptions of CIFAR-10-C and CIFAR-100-C at five severities, generated or as published."""

from felbo.data.corruptions.apply import corrupt
from felbo.data.corruptions.names import (
    BENCHMARK_CORRUPTIONS,
    CORRUPTIONS,
    EXTRA_CORRUPTIONS,
    SEVERITIES,
)

__all__ = [
    "BENCHMARK_CORRUPTIONS",
    "CORRUPTIONS",
    "EXTRA_CORRUPTIONS",
    "SEVERITIES",
    "corrupt",
]
