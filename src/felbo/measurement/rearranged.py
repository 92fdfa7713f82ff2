"""Images whose pixels were moved: rolled, in patches, or mixed with another image."""

from __future__ import annotations

import torch
from torch import Tensor

from felbo.measurement.draws import integers, partners, permutations
from felbo.measurement.itemwise import ImageSet


class Rolled(ImageSet):
    """Each image rolled by random numbers of pixels down and across, as by ``torch.roll``.

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
        if max_shift is not None and max_shift < 1:
            raise ValueError(f"max_shift must be at least one pixel, got {max_shift}.")
        self.max_shift = max_shift

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return rolled images ``[S, C, H, W]``."""
        height, width = x.shape[-2:]
        down, right = (self._source(size, x, len(rows)) for size in (height, width))
        index = down[:, :, None] * width + right[:, None, :]
        return _moved(x.index_select(0, rows), index.flatten(1))

    def _source(self, size: int, x: Tensor, count: int) -> Tensor:
        """Draw where each of the positions along an axis takes its pixels from, ``[S, size]``."""
        largest = size // 3 if self.max_shift is None else self.max_shift
        shift = integers(-largest, largest, (count, 1), x, self.generator)
        return (torch.arange(size, device=x.device) - shift) % size


class ShuffledPatches(ImageSet):
    """Each image cut into patches that are put back in a random order.

    The patches that fit are laid around the middle; pixels at the edges that fill no patch stay
    where they are.

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
        self.patch = (patch, patch) if isinstance(patch, int) else patch
        if self.patch is not None and min(self.patch) < 1:
            raise ValueError(f"patch must be at least one pixel, got {patch}.")

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return images of shuffled patches ``[S, C, H, W]``."""
        height, width = x.shape[-2:]
        places = self.places(height, width, x.device)
        order = permutations(len(rows), len(places), x, self.generator)
        index = torch.arange(height * width, device=x.device).repeat(len(rows), 1)
        index[:, places.flatten()] = places[order].flatten(1)
        return _moved(x.index_select(0, rows), index)

    def places(self, height: int, width: int, device: torch.device | None = None) -> Tensor:
        """Return the flat indices of the pixels of each patch, ``[patches, pixels of a patch]``."""
        down, right = self.patch or (max(1, height // 4), max(1, width // 4))
        if (height // down) * (width // right) < 2:
            raise ValueError(
                f"ShuffledPatches needs at least two patches, but patches of {down} × {right} "
                f"pixels fit {(height // down) * (width // right)} times into images of "
                f"{height} × {width}; take smaller ones."
            )
        top, left = height % down // 2, width % right // 2
        pixels = torch.arange(height * width, device=device).view(height, width)
        cut = pixels[top:, left:].unfold(0, down, down).unfold(1, right, right)
        return cut.reshape(-1, down * right)


class Mosaic(ImageSet):
    """Blocks of two images: half of the blocks, at random, come from another image of the batch.

    In a batch of one the other image is the same one, turned upside down.

    Args:
        blocks: number of blocks along each axis; no more than the image has pixels there.
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
            raise ValueError(f"blocks must be at least 2, got {blocks}.")
        self.blocks = blocks

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return mosaics ``[S, C, H, W]``."""
        other = x.index_select(0, partners(rows, x, self.generator))
        if len(x) == 1:
            other = other.flip(-2, -1)
        return torch.where(self._from_other(x, len(rows)), other, x.index_select(0, rows))

    def _from_other(self, x: Tensor, count: int) -> Tensor:
        """Draw which pixels come from the other image, ``[S, 1, H, W]``."""
        down, right = (min(self.blocks, size) for size in x.shape[-2:])
        rank = permutations(count, down * right, x, self.generator)
        chosen = (rank < down * right // 2).view(count, down, right)
        block = [
            torch.arange(size, device=x.device) * number // size
            for size, number in zip(x.shape[-2:], (down, right), strict=True)
        ]
        return chosen[:, block[0]][:, :, block[1]].unsqueeze(1)


def _moved(images: Tensor, index: Tensor) -> Tensor:
    """Return images whose pixels, of all channels, come from the indices ``[S, H · W]``."""
    flat = images.flatten(2)
    moved = flat.gather(2, index.unsqueeze(1).expand(-1, flat.shape[1], -1))
    return moved.view(images.shape)
