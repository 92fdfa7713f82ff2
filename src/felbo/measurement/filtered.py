"""Images with a modified spectrum: phase noise, random convolutions, blur."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from felbo._numbers import refuse_booleans
from felbo.errors import SettingError
from felbo.measurement.draws import integers, normal, uniform
from felbo.measurement.itemwise import ImageSet


class PhaseNoise(ImageSet):
    """Each image with random phases added to its Fourier transform; amplitudes are kept.

    ``F ← F · exp(i strength π u)``, u uniform in [−1, 1) and the same for all channels of an image,
    with ``u(−k) = −u(k)`` so that the result is real. The mean of each channel is kept; single
    values may leave the range of the data.

    Args:
        strength: in (0, 1]; with 1 the phases are completely random.
        generator: source of random numbers; ``None`` is torch's global generator.

    Example:
        >>> import torch
        >>> PhaseNoise(0.5)(torch.rand(4, 3, 32, 32)).shape
        torch.Size([4, 3, 32, 32])
    """

    def __init__(self, strength: float = 1.0, generator: torch.Generator | None = None) -> None:
        super().__init__(generator)
        refuse_booleans(strength=strength)
        if not 0.0 < strength <= 1.0:
            raise SettingError(f"strength must lie in (0, 1], got {strength}.")
        self.strength = strength

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return images with random phases ``[S, C, H, W]``."""
        height, width = x.shape[-2:]
        spectrum = torch.fft.rfft2(x.index_select(0, rows))
        drawn = uniform((len(rows), 1, *spectrum.shape[-2:]), x, self.generator)
        phases = _antisymmetric(drawn.mul_(2.0).sub_(1.0), width).mul_(self.strength * math.pi)
        # Many times faster on the CPU than torch.polar.
        turned = spectrum * torch.complex(phases.cos(), phases.sin())
        result: Tensor = torch.fft.irfft2(turned, s=(height, width))
        return result


class RandomConvolution(ImageSet):
    """Each image filtered by a random convolution that mixes its channels.

    Weights are standard normal, drawn per image. Each channel is then shifted and scaled to its
    original mean and standard deviation, so that the result is in the units of the data. Images are
    padded with the mean of each channel.

    Args:
        kernel_sizes: odd kernel sizes in pixels; each image draws one of them. A size of 1 only
            mixes colours; a grey image stays the same or becomes its negative.
        generator: source of random numbers; ``None`` is torch's global generator.

    Example:
        >>> import torch
        >>> RandomConvolution([3])(torch.rand(4, 3, 32, 32)).shape
        torch.Size([4, 3, 32, 32])
    """

    def __init__(
        self, kernel_sizes: Sequence[int] = (3, 5), generator: torch.Generator | None = None
    ) -> None:
        super().__init__(generator)
        if not kernel_sizes or any(size < 1 or size % 2 == 0 for size in kernel_sizes):
            raise SettingError(f"kernel_sizes must be odd numbers ≥ 1, got {list(kernel_sizes)}.")
        self.kernel_sizes = tuple(kernel_sizes)

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return filtered images ``[S, C, H, W]``."""
        images = x.index_select(0, rows)
        count, channels, height, width = images.shape
        mean = images.mean((-2, -1), keepdim=True)
        centred = images - mean
        kernels = self._kernels(count, channels, x)
        # One group per image, so that one call applies a different kernel to each.
        filtered = F.conv2d(
            centred.reshape(1, count * channels, height, width),
            kernels.flatten(0, 1),
            padding=max(self.kernel_sizes) // 2,
            groups=count,
        ).view(images.shape)
        filtered = filtered - filtered.mean((-2, -1), keepdim=True)
        size = filtered.square().mean((-2, -1), keepdim=True).sqrt()
        wanted = centred.square().mean((-2, -1), keepdim=True).sqrt()
        # Clamped, so that an image of one colour is not divided by zero.
        return mean + filtered * (wanted / size.clamp_min(torch.finfo(size.dtype).tiny))

    def _kernels(self, count: int, channels: int, x: Tensor) -> Tensor:
        """Draw kernels ``[S, C, C, k, k]`` of the largest size, zero beyond the size of each."""
        largest = max(self.kernel_sizes)
        weights = normal((count, channels, channels, largest, largest), x, self.generator)
        sizes = torch.tensor(self.kernel_sizes, device=x.device)
        drawn = sizes[integers(0, len(sizes) - 1, (count,), x, self.generator)]
        distance = (torch.arange(largest, device=x.device) - largest // 2).abs()
        inside = distance <= (drawn // 2)[:, None]
        return weights * (inside[:, :, None] & inside[:, None, :])[:, None, None]


class Smoothed(ImageSet):
    """Each image blurred with a Gaussian of random width.

    At the edges the weights are renormalised over the pixels inside the image, so that no value
    leaves the range of the image, and an image of one colour is not changed.

    Args:
        widths: smallest and largest standard deviation of the Gaussian in pixels, between which
            each image draws its own, uniformly in the logarithm; ``None`` is from 1/16 to 1/4 of
            the longer side.
        generator: source of random numbers; ``None`` is torch's global generator.

    Example:
        >>> import torch
        >>> Smoothed((1.0, 4.0))(torch.rand(4, 3, 32, 32)).shape
        torch.Size([4, 3, 32, 32])
    """

    def __init__(
        self,
        widths: tuple[float, float] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(generator)
        if widths is not None and not 0.0 < widths[0] <= widths[1] < math.inf:
            raise SettingError(f"widths must be (smallest, largest), both positive, got {widths}.")
        self.widths = widths

    def draw(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return blurred images ``[S, C, H, W]``."""
        longer = max(x.shape[-2:])
        low, high = self.widths or (longer / 16, longer / 4)
        position = uniform((len(rows), 1, 1, 1), x, self.generator)
        width = low * (high / low) ** position
        down = _gaussian_rows(x.shape[-2], width)
        right = down if x.shape[-2] == x.shape[-1] else _gaussian_rows(x.shape[-1], width)
        return down @ x.index_select(0, rows) @ right.mT


def _antisymmetric(half: Tensor, width: int) -> Tensor:
    """Make ``u(−k) = −u(k)`` hold in the half ``[..., H, W // 2 + 1]`` of a spectrum.

    Only columns that hold both k and −k need it: the first and, if W is even, the last.
    """
    height = half.shape[-2]
    pairs = (height - 1) // 2
    columns = [0] if width % 2 else [0, width // 2]
    both = half[..., columns]
    both[..., height - pairs :, :] = -both[..., 1 : pairs + 1, :].flip(-2)
    both[..., 0, :] = 0.0
    if height % 2 == 0:
        both[..., height // 2, :] = 0.0
    half[..., columns] = both
    return half


def _gaussian_rows(size: int, width: Tensor) -> Tensor:
    """Return matrices ``[S, 1, size, size]`` that blur along an axis; each row sums to one."""
    position = torch.arange(size, device=width.device, dtype=width.dtype)
    distance = (position[:, None] - position) / width
    return torch.softmax(-0.5 * distance.square(), dim=-1)
