"""Images with rearranged pixels: rolled, in shuffled patches, or mixed with another image."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from felbo._numbers import refuse_booleans
from felbo.errors import SettingError
from felbo.measurement.draws import integers, partners, permutations
from felbo.measurement.itemwise import ImageSet


class Rolled(ImageSet):
    """Each image rolled by random numbers of pixels down and across, as by ``torch.roll``.

    No image stays where it is: it would be a point of the data.

    Args:
        max_shift: largest shift in pixels, in either direction and for both axes; ``None`` is a
            third of the height for rows and a third of the width for columns.
        generator: source of random numbers; ``None`` is torch's global generator.

    Example:
        >>> import torch
        >>> Rolled(2)(torch.rand(4, 3, 32, 32)).shape
        torch.Size([4, 3, 32, 32])
    """

    computes = False

    def __init__(
        self, max_shift: int | None = None, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(generator)
        refuse_booleans(max_shift=max_shift)
        if max_shift is not None and max_shift < 1:
            raise SettingError(f"max_shift must be at least one pixel, got {max_shift}.")
        self.max_shift = max_shift

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return rolled images ``[S, C, H, W]``."""
        height, width = x.shape[-2:]
        down, right = (self._shifts(size, x, len(rows)) for size in (height, width))
        right = torch.where((down % height == 0) & (right % width == 0), 1, right)
        above, left = _sources(height, down), _sources(width, right)
        index = above[:, :, None] * width + left[:, None, :]
        return _moved(x.index_select(0, rows), index.flatten(1))

    def _shifts(self, size: int, x: Tensor, count: int) -> Tensor:
        """Draw shifts along an axis of a length, ``[S, 1]``."""
        largest = size // 3 if self.max_shift is None else self.max_shift
        return integers(-largest, largest, (count, 1), x, self.generator)


def _sources(size: int, shifts: Tensor) -> Tensor:
    """Return the index that each position along an axis is taken from, ``[S, size]``."""
    return (torch.arange(size, device=shifts.device) - shifts) % size


class ShuffledPatches(ImageSet):
    """Each image with its patches in random order.

    The lattice of patches is centred; remaining pixels at the edges are not moved.

    Args:
        patch: side of a patch in pixels, one number or ``(height, width)``; ``None`` is a quarter
            of the image's height and width.
        generator: source of random numbers; ``None`` is torch's global generator.

    Example:
        >>> import torch
        >>> ShuffledPatches(7)(torch.rand(4, 1, 28, 28)).shape
        torch.Size([4, 1, 28, 28])
    """

    computes = False

    def __init__(
        self,
        patch: int | tuple[int, int] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(generator)
        refuse_booleans(patch=patch)
        self.patch = (patch, patch) if isinstance(patch, int) else patch
        if self.patch is not None and min(self.patch) < 1:
            raise SettingError(f"patch must be at least one pixel, got {patch}.")

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return images of shuffled patches ``[S, C, H, W]``."""
        height, width = x.shape[-2:]
        corners, patch_of = self.lattice(height, width, x.device)
        order = permutations(len(rows), len(corners), x, self.generator)
        # Index offset of the source of each patch; the last entry, zero, is for the other pixels.
        away = F.pad(corners[order] - corners, (0, 1))
        index = torch.arange(height * width, device=x.device) + _spread(away, patch_of)
        return _moved(x.index_select(0, rows), index)

    def lattice(
        self, height: int, width: int, device: torch.device | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the flat index of the first pixel of each patch, and the patch of each pixel.

        Pixels outside all patches have the number of patches as their index.
        """
        down, right = self.patch or (max(1, height // 4), max(1, width // 4))
        many, across = height // down, width // right
        if many * across < 2:
            raise SettingError(
                f"ShuffledPatches needs at least two patches, but patches of {down} × {right} "
                f"pixels fit {many * across} times into images of {height} × {width}; take "
                "smaller ones."
            )
        top, left = height % down // 2, width % right // 2
        first_rows = top + down * torch.arange(many, device=device)
        first_columns = left + right * torch.arange(across, device=device)
        corners = (first_rows[:, None] * width + first_columns).flatten()
        patch_of = torch.full((height, width), many * across, device=device)
        inside = patch_of[top : top + many * down, left : left + across * right]
        numbers = torch.arange(many * across, device=device).view(many, 1, across, 1)
        inside.view(many, down, across, right).copy_(numbers)
        return corners, patch_of.flatten()


class Mosaic(ImageSet):
    """Each image with half of its blocks, at random, taken from another image of the batch.

    In a batch of one the other image is the same image, rotated by 180°.

    Args:
        blocks: number of blocks along each axis, at most the number of pixels.
        generator: source of random numbers; ``None`` is torch's global generator.

    Example:
        >>> import torch
        >>> Mosaic(2)(torch.rand(4, 3, 32, 32)).shape
        torch.Size([4, 3, 32, 32])
    """

    computes = False

    def __init__(self, blocks: int = 4, generator: torch.Generator | None = None) -> None:
        super().__init__(generator)
        if blocks < 2:
            raise SettingError(f"blocks must be at least 2, got {blocks}.")
        self.blocks = blocks

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return mosaics ``[S, C, H, W]``."""
        other = x.index_select(0, partners(rows, x, self.generator))
        if len(x) == 1:
            other = other.flip(-2, -1)
        return torch.where(self._from_other(x, len(rows)), other, x.index_select(0, rows))

    def _from_other(self, x: Tensor, count: int) -> Tensor:
        """Draw the mask of pixels from the other image, ``[S, 1, H, W]``."""
        (height, width), device = x.shape[-2:], x.device
        down, right = min(self.blocks, height), min(self.blocks, width)
        chosen = permutations(count, down * right, x, self.generator) < down * right // 2
        row = torch.arange(height, device=device) * down // height
        column = torch.arange(width, device=device) * right // width
        block_of = (row[:, None] * right + column).flatten()
        return _spread(chosen, block_of).view(count, 1, height, width)


def _spread(values: Tensor, part_of: Tensor) -> Tensor:
    """Return for each pixel the value ``[S, parts]`` of its part ``[H · W]``, ``[S, H · W]``."""
    # Several times faster than values[:, part_of].
    return values.gather(1, part_of.expand(len(values), -1))


def _moved(images: Tensor, index: Tensor) -> Tensor:
    """Return images with pixels gathered from the flat indices ``[S, H · W]``, all channels."""
    flat = images.flatten(2)
    moved = flat.gather(2, index.unsqueeze(1).expand(-1, flat.shape[1], -1))
    return moved.view(images.shape)
