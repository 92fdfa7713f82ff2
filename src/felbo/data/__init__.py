"""Data sets from their publishers' files, and what is done to images before a network sees them.

>>> from felbo import data
>>> data.NAMES
('mnist', 'fashion-mnist', 'cifar10', 'cifar100')
>>> data.REGISTRY["cifar10"].class_names[:3]
('airplane', 'automobile', 'bird')
"""

from felbo.data.download import fetch
from felbo.data.errors import CorruptDataError, DownloadError, MissingDataError
from felbo.data.integrity import FileReport, FileState, verify
from felbo.data.loading import ImageData, load
from felbo.data.location import data_root
from felbo.data.pixels import normalize, scale
from felbo.data.registry import NAMES, REGISTRY, DatasetInfo, dataset_info
from felbo.data.rotation import rotate

__all__ = [
    "NAMES",
    "REGISTRY",
    "CorruptDataError",
    "DatasetInfo",
    "DownloadError",
    "FileReport",
    "FileState",
    "ImageData",
    "MissingDataError",
    "data_root",
    "dataset_info",
    "fetch",
    "load",
    "normalize",
    "rotate",
    "scale",
    "verify",
]
