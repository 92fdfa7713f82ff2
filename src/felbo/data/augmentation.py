"""Random crops and flips of a batch of images."""

import torch
from torch import Tensor

from felbo._numbers import refuse_booleans
from felbo.errors import SettingError, ShapeError

__all__ = ["random_crop", "random_crop_flip", "random_flip"]


def random_crop_flip(
    images: Tensor, *, padding: int = 4, generator: torch.Generator | None = None
) -> Tensor:
    """Random crop and random horizontal flip of each image: the usual augmentation of CIFAR.

    :func:`random_crop`, then :func:`random_flip`.

    Args:
        images: [B, C, H, W], normalised, so that the padding with 0 is the mean colour.
        padding: The largest shift in pixels.
        generator: Source of the random numbers; `None` is torch's global generator.

    Returns:
        New images; same shape, type, device and memory format.

    Example:
        >>> import torch
        >>> random_crop_flip(torch.ones(2, 3, 32, 32)).shape
        torch.Size([2, 3, 32, 32])
    """
    return random_flip(
        random_crop(images, padding=padding, generator=generator), generator=generator
    )


def random_crop(
    images: Tensor, *, padding: int = 4, generator: torch.Generator | None = None
) -> Tensor:
    """Pad each image with zeros on all sides and crop it at random to its original size.

    out[b, c, i, j] = padded[b, c, i + u_b, j + v_b],  u_b, v_b ~ uniform{0, …, 2 · padding}

    The zeros are in the units of `images`: crop after normalising, not before, if the border is to
    have the mean colour.

    Args:
        images: [B, C, H, W].
        padding: Zeros on each side, and so the largest shift in pixels.
        generator: Source of the random numbers; `None` is torch's global generator.

    Returns:
        New images; same shape, type, device and memory format.

    Example:
        >>> import torch
        >>> image = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> random_crop(image, padding=1, generator=torch.Generator().manual_seed(5))
        tensor([[[[0., 3.],
                  [0., 0.]]]])
    """
    _check(images)
    refuse_booleans(padding=padding)
    if padding < 0:
        raise SettingError(f"Expected padding of at least 0 pixels, but got {padding}.")
    height, width = images.shape[-2:]
    down, right = _draw(2, 2 * padding + 1, images, generator)
    # Advanced indexing puts [B, H, W] first and the channels last, which is channels_last memory.
    padded = torch.nn.functional.pad(images, [padding] * 4).permute(0, 2, 3, 1)
    item = torch.arange(len(images), device=images.device).view(-1, 1, 1)
    rows = down.view(-1, 1, 1) + torch.arange(height, device=images.device).view(-1, 1)
    columns = right.view(-1, 1, 1) + torch.arange(width, device=images.device)
    return _like(padded[item, rows, columns].permute(0, 3, 1, 2), images)


def random_flip(images: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    """Flip each image horizontally with probability 1/2.

    Args:
        images: [B, C, H, W].
        generator: Source of the random numbers; `None` is torch's global generator.

    Returns:
        New images; same shape, type, device and memory format.

    Example:
        >>> import torch
        >>> images = torch.tensor([1.0, 2.0]).expand(4, 1, 1, 2)
        >>> random_flip(images, generator=torch.Generator().manual_seed(0)).squeeze()
        tensor([[1., 2.],
                [2., 1.],
                [2., 1.],
                [1., 2.]])
    """
    _check(images)
    (mirrored,) = _draw(1, 2, images, generator)
    return _like(torch.where(mirrored.bool().view(-1, 1, 1, 1), images.flip(-1), images), images)


def _draw(count: int, bound: int, images: Tensor, generator: torch.Generator | None) -> Tensor:
    """Integers [count, B] uniform in 0 … bound − 1, on the images' device."""
    # Drawn on the generator's device: a CPU generator then gives the same crops on every device.
    device = images.device if generator is None else generator.device
    numbers = torch.randint(bound, (count, len(images)), generator=generator, device=device)
    return numbers.to(images.device)


def _like(result: Tensor, images: Tensor) -> Tensor:
    """Return the result in the memory format of the images."""
    channels_last = images.is_contiguous(memory_format=torch.channels_last)
    # With a single channel the images are contiguous in both formats; prefer the default one.
    if channels_last and not images.is_contiguous():
        return result.contiguous(memory_format=torch.channels_last)
    return result.contiguous()


def _check(images: Tensor) -> None:
    if images.ndim != 4:
        raise ShapeError(f"Expected images [B, C, H, W], but got shape {tuple(images.shape)}.")
