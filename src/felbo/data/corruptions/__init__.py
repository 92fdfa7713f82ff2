"""The 19 corruptions of CIFAR-10-C and CIFAR-100-C at five severities: generate or load them."""

from felbo.data.corruptions.apply import corrupt
from felbo.data.corruptions.dataset import corrupted, corrupted_folder
from felbo.data.corruptions.names import (
    BENCHMARK_CORRUPTIONS,
    CORRUPTIONS,
    EXTRA_CORRUPTIONS,
    SEVERITIES,
)
from felbo.data.corruptions.writing import write_corrupted

__all__ = [
    "BENCHMARK_CORRUPTIONS",
    "CORRUPTIONS",
    "EXTRA_CORRUPTIONS",
    "SEVERITIES",
    "corrupt",
    "corrupted",
    "corrupted_folder",
    "write_corrupted",
]
