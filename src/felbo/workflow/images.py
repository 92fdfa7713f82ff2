"""Images of a folder with one folder per class, or of a named data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from felbo.data import load
from felbo.workflow.errors import InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
# More would fill the memory from a file of a few kilobytes.
MOST_PIXELS = 100_000_000
CHUNK = 512


class LabelledImages(NamedTuple):
    """Images as bytes, their labels and where they come from.

    Attributes:
        images: uint8 ``[N, C, H, W]``.
        labels: int64 ``[N]``.
        names: of the N images, for a reader.
    """

    images: Tensor
    labels: Tensor
    names: list[str]

    def take(self, places: Any) -> LabelledImages:
        """Return some of the images."""
        index = torch.as_tensor(places)
        names = [self.names[place] for place in index.tolist()]
        return LabelledImages(self.images[index], self.labels[index], names)

    def limited(self, count: int | None) -> LabelledImages:
        """Return as many images at most, spread over the whole; all for ``None``."""
        if count is None or count >= len(self.labels):
            return self
        return self.take(torch.linspace(0, len(self.labels) - 1, count).round().long())


class ImageSource(Protocol):
    """Where images come from."""

    @property
    def name(self) -> str:
        """As the user wrote it."""

    def classes(self) -> list[str]:
        """Return the names of the classes."""

    def read(self, channels: int | None = None) -> LabelledImages:
        """Return all labelled images."""

    def held_out(self) -> LabelledImages | None:
        """Return the test split that the publisher made, if there is one."""

    def notes(self) -> list[str]:
        """Return what a user should know about the images."""


class NamedImages:
    """A data set that felbo knows by name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def classes(self) -> list[str]:
        """Return the names of the classes."""
        return list(load(self.name, "test").class_names)

    def read(self, channels: int | None = None) -> LabelledImages:
        """Return the training split."""
        return self._split("train")

    def held_out(self) -> LabelledImages:
        """Return the test split."""
        return self._split("test")

    def notes(self) -> list[str]:
        """Return nothing: all images are used."""
        return []

    def _split(self, split: Any) -> LabelledImages:
        found = load(self.name, split)
        names = [f"{self.name} {split} {place}" for place in range(len(found.labels))]
        return LabelledImages(found.images, found.labels, names)


class FolderImages:
    """A folder with one folder of images per class.

    Args:
        path: the folder.
        size: height and width to which all images are scaled.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.size, self.name = path, size, str(path)

    def classes(self) -> list[str]:
        """Return the names of the folders that hold images; hidden ones are no classes."""
        found = sorted(part.name for part in self._folders() if _files(part))
        if not found:
            raise InputError(
                f"{self.path} must hold a folder of images for each class; found none. Images end "
                f"in {', '.join(SUFFIXES)}. {' '.join(self.notes())}".rstrip()
            )
        return found

    def read(self, channels: int | None = None) -> LabelledImages:
        """Return all images.

        Args:
            channels: 1 or 3; ``None`` takes 1 if all images are grey.
        """
        files = [
            (file, label)
            for label, name in enumerate(self.classes())
            for file in _files(self.path / name)
        ]
        if channels is None:
            channels = 1 if all(_is_grey(file) for file, _ in files) else 3
        images = torch.stack([read_image(file, self.size, channels) for file, _ in files])
        labels = torch.tensor([label for _, label in files])
        names = [str(file.relative_to(self.path)) for file, _ in files]
        return LabelledImages(images, labels, names)

    def held_out(self) -> None:
        """Return nothing: a folder has no test split."""

    def notes(self) -> list[str]:
        """Return what was not used: images elsewhere, other files, and folders without images."""
        found = []
        files = _files(self.path, deep=True)
        depths = [len(file.relative_to(self.path).parts) for file in files]
        beside, below = depths.count(1), sum(depth > 2 for depth in depths)
        if beside + below:
            found.append(
                f"Images of {self.path} that were not used: {beside} beside the folders of the "
                f"classes and {below} in folders below them. Each belongs into the folder of its "
                "class itself."
            )
        folders = self._folders()
        if empty := [part.name for part in folders if not _files(part, deep=True)]:
            found.append(f"Folders without images are no classes: {', '.join(sorted(empty))}.")
        others = Counter(suffix for part in folders for suffix in _other_suffixes(part))
        if others:
            shown = ", ".join(f"{count} {suffix}" for suffix, count in sorted(others.items()))
            found.append(
                f"Files of {self.path} whose names are not those of images were not used: {shown}."
            )
        return found

    def _folders(self) -> list[Path]:
        """Return the folders that are not hidden."""
        return [part for part in self.path.iterdir() if part.is_dir() and not _hidden(part.name)]


def image_chunks(folder: Path, size: int, channels: int) -> Iterator[tuple[list[str], Tensor]]:
    """Yield names and images ``[B, C, H, W]`` of all files below a folder, some at a time."""
    files = _files(folder, deep=True)
    if not files:
        raise InputError(f"There are no images in {folder}; images end in {', '.join(SUFFIXES)}.")
    for start in range(0, len(files), CHUNK):
        part = files[start : start + CHUNK]
        images = torch.stack([read_image(file, size, channels) for file in part])
        yield [str(file.relative_to(folder)) for file in part], images


def read_image(path: Path, size: int, channels: int) -> Tensor:
    """Return an image as bytes ``[C, size, size]``: upright, and on white where transparent."""
    image = _opened(path).convert("L" if channels == 1 else "RGB")
    pixels = np.asarray(image.resize((size, size)), dtype=np.uint8)
    return torch.from_numpy(pixels.reshape(size, size, channels).copy()).permute(2, 0, 1)


def _is_grey(path: Path) -> bool:
    return bool(_opened(path).mode == "L")


def _opened(path: Path) -> Any:
    """Return an image in mode ``"L"`` if it is grey, and in ``"RGB"`` otherwise."""
    from PIL import Image

    try:
        # Formats by name: others, such as EPS, are drawn by programs outside of Python.
        with Image.open(path, formats=FORMATS) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise InputError(
                    f"{path} has {width} x {height} pixels, and felbo reads {MOST_PIXELS:,} at "
                    "most. Scale it down first."
                )
            image.load()
            _turn_upright(image)
            return _on_white(_of_bytes(image, path))
    except InputError:
        raise
    except Exception as error:  # a damaged image can fail inside any decoder, with any exception
        raise InputError(f"{path} is no image, or it is damaged: {error}") from error


def _turn_upright(image: Any) -> None:
    """Turn an image in place as its EXIF data say."""
    from PIL import ImageOps

    # EXIF data that cannot be read say nothing about a picture that can.
    with suppress(Exception):
        ImageOps.exif_transpose(image, in_place=True)


def _of_bytes(image: Any, path: Path) -> Any:
    """Return an image with 8 bits per channel; 12 and 16 are scaled."""
    from PIL import Image

    if image.mode == "La":  # grey times its opacity, which Pillow converts to LA alone
        return image.convert("LA")
    # Pillow holds 16 bits of PGM, and of PNG before its version 11, in 32.
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        values = np.asarray(image).astype(np.uint32)
        white, inverted = _white(image)
        scaled = ((255 * values + white // 2) // white).astype(np.uint8)
        return Image.fromarray(255 - scaled if inverted else scaled)
    if image.mode in ("I", "F"):
        kind = "floating-point numbers" if image.mode == "F" else "signed or 32-bit whole numbers"
        raise InputError(
            f"{path} holds {kind}, of which nothing says what is black and what is white. Save it "
            "with 8 or 16 bits per channel."
        )
    return image


def _white(image: Any) -> tuple[int, bool]:
    """Return the largest value of an image with 16 bits per pixel in memory, and if it is black.

    A TIFF may have 12 bits per pixel, and 0 may be white; Pillow looks after neither.
    """
    if image.format != "TIFF":
        return 65535, False
    bits, photometric = image.tag_v2.get(258, (16,)), image.tag_v2.get(262, 1)
    return 2 ** bits[0] - 1, photometric == 0


def _on_white(image: Any) -> Any:
    """Return an image in mode ``"L"`` or ``"RGB"``, on white where it is transparent."""
    from PIL import Image

    mode = "L" if image.mode in ("1", "L", "LA") else "RGB"
    if "A" not in image.getbands() and "transparency" not in image.info:
        return image.convert(mode)
    clear = image.convert("RGBA")
    white = Image.new("RGB", clear.size, "white")
    white.paste(clear, mask=clear.getchannel("A"))
    return white.convert(mode)


def _files(folder: Path, deep: bool = False) -> list[Path]:
    found = folder.rglob("*") if deep else folder.glob("*")
    images = (path for path in found if path.suffix.lower() in SUFFIXES and path.is_file())
    return sorted(path for path in images if not _hidden(*path.relative_to(folder).parts))


def _other_suffixes(folder: Path) -> list[str]:
    """Return how the names of files in a folder end that are not those of images."""
    files = (path for path in folder.iterdir() if path.is_file() and not _hidden(path.name))
    suffixes = (path.suffix.lower() for path in files)
    return [suffix or "without a suffix" for suffix in suffixes if suffix not in SUFFIXES]


def _hidden(*names: str) -> bool:
    """Return whether one of the names is hidden, such as ``.ipynb_checkpoints``."""
    return any(name.startswith(".") for name in names)
