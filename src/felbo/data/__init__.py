"""Image data sets (download, verify, load) and image transforms (scale, rotate, corrupt).

>>> from felbo import data
>>> data.NAMES
('mnist', 'fashion-mnist', 'cifar10', 'cifar100')
>>> data.REGISTRY["cifar10"].class_names[:3]
('airplane', 'automobile', 'bird')
"""

from felbo.data.corruptions import (
    BENCHMARK_CORRUPTIONS,
    CORRUPTIONS,
    EXTRA_CORRUPTIONS,
    SEVERITIES,
    corrupt,
    corrupted,
    corrupted_folder,
    write_corrupted,
)
from felbo.data.download import fetch
from felbo.data.errors import CorruptDataError, DownloadError, MissingDataError
from felbo.data.integrity import FileReport, FileState, verify
from felbo.data.loading import ImageData, load
from felbo.data.location import data_root
from felbo.data.pixels import normalize, scale
from felbo.data.registry import NAMES, REGISTRY, DatasetInfo, dataset_info, source_info
from felbo.data.rotation import rotate

__all__ = [
    "BENCHMARK_CORRUPTIONS",
    "CORRUPTIONS",
    "EXTRA_CORRUPTIONS",
    "NAMES",
    "REGISTRY",
    "SEVERITIES",
    "CorruptDataError",
    "DatasetInfo",
    "DownloadError",
    "FileReport",
    "FileState",
    "ImageData",
    "MissingDataError",
    "corrupt",
    "corrupted",
    "corrupted_folder",
    "data_root",
    "dataset_info",
    "fetch",
    "load",
    "normalize",
    "rotate",
    "scale",
    "source_info",
    "verify",
    "write_corrupted",
]
