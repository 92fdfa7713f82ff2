"""Corrupt a data set reproducibly: each result depends on the seed and the image's index only."""

from collections.abc import Iterator
from functools import lru_cache
from os import PathLike
from pathlib import Path
from zlib import crc32

import numpy as np
import torch
from torch import Generator, Tensor

from felbo.data.corruptions.apply import corrupt
from felbo.data.corruptions.layout import FOLDERS
from felbo.data.loading import ImageData, load
from felbo.data.location import data_root
from felbo.errors import SettingError

__all__ = ["check_dataset", "check_limit", "clean_test_set", "generate"]

# Changing it changes the generated images, since each chunk has its own random numbers.
CHUNK = 250


def generate(
    images: Tensor,
    corruption: str,
    severity: int,
    *,
    seed: int = 0,
    limit: int | None = None,
    root: str | PathLike[str] | None = None,
) -> Iterator[Tensor]:
    """Yield the corrupted images in order, at most 250 at a time.

    Each chunk has its own generator, seeded by (seed, corruption, severity, chunk). The first
    images are therefore the same for every limit, and no corruption depends on another.

    Args:
        images: uint8 [N, 3, H, W].
        corruption: One of `felbo.data.CORRUPTIONS`.
        severity: 1 to 5.
        seed: A non-negative integer.
        limit: Number of images, taken from the start; `None` is all.
        root: The data root, for the textures of frost.

    Example:
        >>> images = torch.randint(256, (300, 3, 32, 32), dtype=torch.uint8)
        >>> [len(chunk) for chunk in generate(images, "fog", 3)]
        [250, 50]
        >>> ten = next(generate(images, "fog", 3, limit=10))
        >>> torch.equal(ten, next(generate(images, "fog", 3))[:10])
        True
    """
    wanted = check_limit(limit, len(images))
    for number, start in enumerate(range(0, wanted, CHUNK)):
        generator = _generator(seed, corruption, severity, number)
        chunk = images[start : start + CHUNK]
        yield corrupt(chunk, corruption, severity, generator=generator, root=root)[: wanted - start]


def _generator(seed: int, corruption: str, severity: int, chunk: int) -> Generator:
    # SeedSequence hashes its numbers, so that neighbouring seeds give independent streams.
    numbers = [seed, crc32(corruption.encode()), severity, chunk]
    state = np.random.SeedSequence(numbers).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]))


def clean_test_set(name: str, root: str | PathLike[str] | None = None) -> ImageData:
    """Load the test images that the benchmark corrupts, cached between calls."""
    check_dataset(name)
    return _load_test_set(name, data_root(root))


@lru_cache(maxsize=1)  # a full run of 95 corruptions starts from the same images
def _load_test_set(name: str, base: Path) -> ImageData:
    return load(name, "test", base)


def check_limit(limit: int | None, available: int) -> int:
    """Return the number of images to use; raise if the limit exceeds those available."""
    if limit is None:
        return available
    if not 1 <= limit <= available:
        raise SettingError(f"Expected a limit from 1 to {available:,} images, but got {limit:,}.")
    return limit


def check_dataset(name: str) -> None:
    """Raise SettingError for a data set that is not in the benchmark."""
    if name not in FOLDERS:
        raise SettingError(
            f"Expected {' or '.join(FOLDERS)}, whose corruptions are published, but got {name!r}. "
            "Corrupt other images with felbo.data.corrupt."
        )
