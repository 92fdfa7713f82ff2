"""Frost: photographs of frosted glass blended with the images."""

import io
import math
from functools import lru_cache
from os import PathLike
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Generator, Tensor

from felbo.data.download import fetch
from felbo.data.errors import MissingDataError
from felbo.data.integrity import check_bytes
from felbo.data.location import ENVIRONMENT_VARIABLE, data_root, fetch_command
from felbo.data.registry import source_info

__all__ = ["frost", "load_textures"]

IMAGE_AND_FROST_WEIGHT = ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))
# For 32 × 32 pixels the textures are subsampled by 5 along each axis, taking the middle pixel.
SHRINKAGE = 5


def frost(
    x: Tensor, severity: int, generator: Generator | None, textures: tuple[Tensor, ...]
) -> Tensor:
    """A x + b f with f a random crop of a random texture, drawn for each image.

    The published script has six textures and draws one of the first five; all six are drawn here.
    For images larger than a texture subsampled by 5, it is subsampled less, or enlarged.

    Args:
        x: [N, 3, H, W] in [0, 1].
        severity: 1 to 5.
        generator: Source of textures and crops.
        textures: uint8 [3, h, w] each, from :func:`load_textures`.
    """
    image_weight, frost_weight = IMAGE_AND_FROST_WEIGHT[severity - 1]
    count, _, height, width = x.shape
    chosen = torch.randint(len(textures), (count,), generator=generator)
    position = torch.rand(2, count, generator=generator, dtype=torch.float64)
    overlay = torch.empty_like(x)
    for number, texture in enumerate(textures):
        these = (chosen == number).nonzero().squeeze(1)
        fitted = _fit(texture, height, width)
        crops = fitted.unfold(1, height, 1).unfold(2, width, 1)  # a view [3, tops, lefts, H, W]
        top = (position[0, these] * crops.shape[1]).long()
        left = (position[1, these] * crops.shape[2]).long()
        overlay[these] = crops[:, top, left].transpose(0, 1)
    return image_weight * x + frost_weight * overlay


def _fit(texture: Tensor, height: int, width: int) -> Tensor:
    """Resize a texture to [3, ≥ height, ≥ width] in [0, 1]."""
    rows, columns = texture.shape[1:]
    step = min(SHRINKAGE, rows // height, columns // width)
    if step >= 1:
        return texture[:, step // 2 :: step, step // 2 :: step] / 255.0
    factor = max(height / rows, width / columns)
    size = (math.ceil(rows * factor), math.ceil(columns * factor))
    enlarged = F.interpolate(texture.unsqueeze(0) / 255.0, size, mode="bilinear")
    return enlarged[0]


def load_textures(root: str | PathLike[str] | None = None) -> tuple[Tensor, ...]:
    """Load the six published textures as uint8 [3, h, w]; missing ones are downloaded.

    Raises:
        MissingDataError: A texture is missing and could not be downloaded.
        CorruptDataError: A file is not the published one.
    """
    base = data_root(root)
    info = source_info("frost")
    folder = base / info.folder
    missing = [file.name for file in info.files if not (folder / file.name).is_file()]
    if missing:
        try:
            fetch(info.name, base)
        except OSError as error:
            raise MissingDataError(
                f"{info.title}: expected {', '.join(missing)} in {folder}, but found no such file. "
                f"Run `{fetch_command(info.name, base)}` while online, or set "
                f"{ENVIRONMENT_VARIABLE} to a folder that has {info.folder}/ with these files in "
                f"it. Not downloaded: {error}"
            ) from error
    return _decode(base)


@lru_cache(maxsize=1)  # a full run of 95 corruptions uses the textures five times
def _decode(base: Path) -> tuple[Tensor, ...]:
    info = source_info("frost")
    remedy = f"Run `{fetch_command(info.name, base)}` to replace it."
    textures = []
    for file in info.files:
        path = base / info.folder / file.name
        content = path.read_bytes()
        check_bytes(content, file, source=path, remedy=remedy)
        # Three of the files have an alpha channel; the benchmark ignores it.
        picture = Image.open(io.BytesIO(content), formats=("JPEG", "PNG")).convert("RGB")
        textures.append(torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous())
    return tuple(textures)
