"""Corrupted test sets for evaluation: read from files if present, else generated."""

from os import PathLike
from pathlib import Path

import torch

from felbo.data.corruptions.generated import check_dataset, check_limit, clean_test_set, generate
from felbo.data.corruptions.layout import FOLDERS, read_images, read_labels
from felbo.data.corruptions.manifest import MANIFEST, Manifest
from felbo.data.corruptions.names import check_names
from felbo.data.errors import CorruptDataError
from felbo.data.loading import ImageData
from felbo.data.location import data_root
from felbo.data.registry import dataset_info

__all__ = ["corrupted", "corrupted_folder"]


def corrupted(
    name: str,
    corruption: str,
    severity: int,
    *,
    root: str | PathLike[str] | None = None,
    seed: int = 0,
    limit: int | None = None,
    published: bool | None = None,
) -> ImageData:
    """Load the test images of CIFAR-10 or CIFAR-100 under one corruption of the benchmark.

    Reads `<root>/CIFAR-10-C/<corruption>.npy` (or `CIFAR-100-C`) if that folder has files, either
    the published ones or those written by `felbo data corrupt`; otherwise generates the images. The
    first images are the same test images for every corruption, severity and limit.

    Args:
        name: `"cifar10"` or `"cifar100"`.
        corruption: One of `felbo.data.CORRUPTIONS`.
        severity: 1 to 5.
        root: The data root; see :func:`felbo.data.location.data_root`.
        seed: Seed of generated images; the published ones have none.
        limit: Number of images, taken from the start; `None` is all.
        published: `True` to require files, `False` to always generate.

    Returns:
        uint8 images [N, 3, 32, 32], int64 labels [N] and the class names.

    Raises:
        MissingDataError: Required files are missing and could not be downloaded.
        CorruptDataError: A file has unexpected content, or was written with another seed.

    Example:
        >>> import felbo.data
        >>> foggy = felbo.data.corrupted("cifar10", "fog", 3, limit=1000)  # doctest: +SKIP
        >>> foggy.images.shape  # doctest: +SKIP
        torch.Size([1000, 3, 32, 32])
    """
    check_dataset(name)
    check_names(corruption, severity)
    folder = None if published is False else corrupted_folder(name, root)
    if folder is None and published:
        folder = data_root(root) / FOLDERS[name]  # reading it raises with the missing file
    if folder is None:
        return _generated(name, corruption, severity, root, seed, limit)
    _check_seed(folder, name, seed)
    info = dataset_info(name)
    labels = read_labels(folder, info)
    count = check_limit(limit, len(labels))
    images = read_images(folder, corruption, severity, info, len(labels), count)
    return ImageData(images, labels[:count], info.class_names)


def corrupted_folder(name: str, root: str | PathLike[str] | None = None) -> Path | None:
    """Return the folder that :func:`corrupted` reads, or None if it generates the images."""
    check_dataset(name)
    folder = data_root(root) / FOLDERS[name]
    return folder if any(folder.glob("*.npy")) else None


def _generated(
    name: str,
    corruption: str,
    severity: int,
    root: str | PathLike[str] | None,
    seed: int,
    limit: int | None,
) -> ImageData:
    clean = clean_test_set(name, root)
    chunks = generate(clean.images, corruption, severity, seed=seed, limit=limit, root=root)
    images = torch.cat(list(chunks))
    return ImageData(images, clean.labels[: len(images)], clean.class_names)


def _check_seed(folder: Path, name: str, seed: int) -> None:
    manifest = Manifest.read(folder)
    if manifest is not None and (manifest.dataset, manifest.seed) != (name, seed):
        raise CorruptDataError(
            folder / MANIFEST,
            expected=f"images of {name} with seed {seed}",
            came=f"images of {manifest.dataset} with seed {manifest.seed}",
            remedy="Ask for that seed, or pass published=False to generate the images.",
        )
