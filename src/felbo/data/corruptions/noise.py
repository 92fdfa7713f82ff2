"""Noise: Gaussian, shot, impulse and speckle, independent for every value of every channel."""

import torch
from torch import Generator, Tensor

__all__ = ["gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise"]

GAUSSIAN_STD = (0.04, 0.06, 0.08, 0.09, 0.10)
PHOTONS = (500.0, 250.0, 100.0, 75.0, 50.0)
IMPULSE_SHARE = (0.01, 0.02, 0.03, 0.05, 0.07)
SPECKLE_STD = (0.06, 0.1, 0.12, 0.16, 0.2)


def gaussian_noise(x: Tensor, severity: int, generator: Generator | None) -> Tensor:
    """Additive Gaussian noise, x + σ ε with ε ~ N(0, 1)."""
    return x + GAUSSIAN_STD[severity - 1] * _normal(x, generator)


def shot_noise(x: Tensor, severity: int, generator: Generator | None) -> Tensor:
    """Poisson noise, n / λ with n ~ Poisson(λ x): a white pixel counts λ photons on average."""
    photons = PHOTONS[severity - 1]
    return torch.poisson(photons * x, generator=generator) / photons


def impulse_noise(x: Tensor, severity: int, generator: Generator | None) -> Tensor:
    """Salt-and-pepper noise: each value becomes 0 or 1 with probability p / 2 each."""
    share = IMPULSE_SHARE[severity - 1]
    u = torch.rand(x.shape, generator=generator)
    return x.masked_fill(u < share, 1.0).masked_fill_(u < share / 2, 0.0)


def speckle_noise(x: Tensor, severity: int, generator: Generator | None) -> Tensor:
    """Multiplicative Gaussian noise, x + σ x ε with ε ~ N(0, 1)."""
    return x + SPECKLE_STD[severity - 1] * x * _normal(x, generator)


def _normal(x: Tensor, generator: Generator | None) -> Tensor:
    return torch.randn(x.shape, generator=generator)
