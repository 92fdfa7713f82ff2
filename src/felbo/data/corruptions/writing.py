"""Write corrupted test images in the layout of CIFAR-10-C; atomic per file, resumable."""

import os
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from torch import Tensor

from felbo.data.corruptions.generated import check_limit, clean_test_set, generate
from felbo.data.corruptions.layout import LABELS
from felbo.data.corruptions.manifest import MANIFEST, Manifest, md5_of
from felbo.data.corruptions.names import CORRUPTIONS, SEVERITIES, check_names
from felbo.data.errors import CorruptDataError

__all__ = ["write_corrupted"]


def write_corrupted(
    name: str,
    out: str | PathLike[str],
    *,
    root: str | PathLike[str] | None = None,
    seed: int = 0,
    limit: int | None = None,
    corruptions: Sequence[str] = CORRUPTIONS,
    advance: Callable[[str, int], None] = lambda corruption, images: None,
) -> list[Path]:
    """Write `labels.npy` and `<corruption>.npy` for each corruption; existing good files are kept.

    A file is written under a temporary name and renamed when complete. `felbo.json` records seed,
    number of images and md5, by which files of an earlier run are recognised.

    Args:
        name: `"cifar10"` or `"cifar100"`.
        out: The folder; `felbo.data.corrupted` reads `<data root>/CIFAR-10-C`.
        root: The data root of the clean images and of the textures of frost.
        seed: Seed of the random numbers.
        limit: Number of test images, taken from the start; `None` is all.
        corruptions: The corruptions to write.
        advance: Progress callback, called with a corruption and a number of finished images.

    Returns:
        The files written by this call, without those that existed before.

    Raises:
        CorruptDataError: An existing file differs from what this call would write.
    """
    for corruption in corruptions:
        check_names(corruption, SEVERITIES[0])
    clean = clean_test_set(name, root)
    wanted = Manifest(name, seed, check_limit(limit, len(clean.labels)))
    folder = Path(out).expanduser().absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".corrupt.lock"):
        manifest = _open_manifest(folder, wanted)
        written = []
        if not _is_written(folder / LABELS, manifest):
            labels = clean.labels[: manifest.count].numpy().astype(np.uint8)
            written.append(_save(np.tile(labels, len(SEVERITIES)), folder / LABELS, manifest))
        for corruption in corruptions:
            path = folder / f"{corruption}.npy"
            if _is_written(path, manifest):
                advance(corruption, len(SEVERITIES) * manifest.count)
                continue
            array = _corrupted_array(clean.images, corruption, manifest, root, advance)
            written.append(_save(array, path, manifest))
    return written


def _open_manifest(folder: Path, wanted: Manifest) -> Manifest:
    found = Manifest.read(folder)
    if found is None:
        return wanted
    if not found.describes_same_images(wanted):
        raise CorruptDataError(
            folder / MANIFEST,
            expected=f"{wanted.count:,} images of {wanted.dataset} with seed {wanted.seed}",
            came=f"{found.count:,} images of {found.dataset} with seed {found.seed}",
            remedy="Choose another folder, or delete this one.",
        )
    return found


def _is_written(path: Path, manifest: Manifest) -> bool:
    """Return True if the file exists with the recorded md5; raise if its md5 differs."""
    if not path.exists():
        return False
    md5, recorded = md5_of(path), manifest.md5.get(path.name)
    if md5 == recorded:
        return True
    raise CorruptDataError(
        path,
        expected=f"md5 {recorded}" if recorded else "no such file, or one that felbo wrote",
        came=f"md5 {md5}",
        remedy="Delete it and run the same command again, or choose another folder.",
    )


def _corrupted_array(
    images: Tensor,
    corruption: str,
    manifest: Manifest,
    root: str | PathLike[str] | None,
    advance: Callable[[str, int], None],
) -> np.ndarray[Any, Any]:
    """Generate the images of one corruption in the stored layout, uint8 [5 N, H, W, 3]."""
    _, channels, height, width = images.shape
    size = (len(SEVERITIES) * manifest.count, height, width, channels)
    array = np.empty(size, dtype=np.uint8)
    seed, limit, done = manifest.seed, manifest.count, 0
    for severity in SEVERITIES:
        for chunk in generate(images, corruption, severity, seed=seed, limit=limit, root=root):
            array[done : done + len(chunk)] = chunk.permute(0, 2, 3, 1).numpy()
            done += len(chunk)
            advance(corruption, len(chunk))
    return array


def _save(array: np.ndarray[Any, Any], path: Path, manifest: Manifest) -> Path:
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as stream:
            np.save(stream, array, allow_pickle=False)
        manifest.md5[path.name] = md5_of(part)
        # Manifest first: after an interruption, a file without an entry would be refused.
        manifest.write(path.parent)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path
