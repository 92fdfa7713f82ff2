"""Mean-field variational inference: independent Gaussian weights."""

from __future__ import annotations

import torch
from torch import Tensor

from felbo.layers.gaussian import gaussian_kl, standard_normal
from felbo.models._location_scale import LocationScale


class MeanField(LocationScale):
    """Independent Gaussian weights: ``w = μ + σ ⊙ ε``, ε ~ N(0, I), σ = softplus(ρ).

    Linear and convolutional layers and the projections of ``nn.MultiheadAttention`` become random,
    weight and bias alike; everything else (batch normalisation, embeddings) stays deterministic and
    is listed in ``not_converted``.

    Args:
        network: any module that maps ``[B, ...]`` to logits ``[B, K]``. It is copied, and its
            weights initialise μ.
        skip: names of layers, or of modules that hold them, to keep deterministic.
        rho: initial value of every ρ.
        prior_std: standard deviation of the weight prior N(0, prior_std²).
        evaluation_samples: draws in evaluation mode.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MeanField(felbo.networks.mlp(2, (25, 25), 3), skip=("5",))
        >>> model(torch.zeros(4, 2), num_samples=7).shape
        torch.Size([7, 4, 3])
        >>> model.converted, model.not_converted
        (('1', '3'), ('5',))
    """

    def noise(self, size: int, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw ε ~ N(0, I), ``[D]``."""
        return standard_normal(size, like, generator)

    def layer_kl(self, mean: Tensor, scale: Tensor) -> Tensor:
        """KL[N(μ, σ²) || N(0, prior_std²)], in closed form."""
        return gaussian_kl(mean, scale, 0.0, self.prior_std)
