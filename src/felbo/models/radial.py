"""Radial posterior: uniform direction, and a distance that is independent of the dimension."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from felbo.layers.gaussian import standard_normal
from felbo.models._location_scale import LocationScale

_EULER_GAMMA = 0.57721566490153286


class Radial(LocationScale):
    """Radial weights: ``w = μ + σ ⊙ (ε / ‖ε‖) · |r|``, ε ~ N(0, I), r ~ N(0, 1), σ = softplus(ρ).

    There is one direction and one |r| per layer and draw, for weight and bias jointly. A Gaussian
    in D dimensions has almost all its mass at distance √D from its mean; here the distance is
    |r|, whatever D is (Farquhar et al., 2020, "Radial Bayesian Neural Networks").

    Linear and convolutional layers and the projections of ``nn.MultiheadAttention`` become random;
    everything else (batch normalisation, embeddings) stays deterministic and is listed in
    ``not_converted``.

    Args:
        network: any module that maps ``[B, ...]`` to logits ``[B, K]``. It is copied, and its
            weights initialise μ.
        skip: names of layers, or of modules that hold them, to keep deterministic.
        rho: initial value of every ρ.
        prior_std: standard deviation of the weight prior N(0, prior_std²).
        evaluation_samples: draws in evaluation mode.

    Example:
        >>> import torch, felbo
        >>> model = felbo.Radial(felbo.networks.mlp(2, (25, 25), 3))
        >>> model(torch.zeros(4, 2), num_samples=7).shape
        torch.Size([7, 4, 3])
    """

    def noise(self, size: int, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw ``(ε / ‖ε‖) · |r|``, ``[D]``."""
        # One call to the generator: the last number is r.
        normal = standard_normal(size + 1, like, generator)
        direction, distance = normal[:-1], normal[-1].abs()
        noise: Tensor = direction * (distance / torch.linalg.vector_norm(direction))
        return noise

    def layer_kl(self, mean: Tensor, scale: Tensor) -> Tensor:
        """KL of one layer to N(0, s₀² I): cross-entropy minus entropy, both exact.

        With x = (w − μ) / σ = |r| u and u uniform on the unit sphere, E[|r|²] = 1 and
        E[u_i²] = 1/D, so that E[w_i²] = μ_i² + σ_i² / D and

            −E[log p(w)] = D/2 log(2π s₀²) + Σ (μ² + σ²/D) / (2 s₀²).

        The density of x is the half-normal density of |r| divided by the area of the sphere of
        radius |r|, A |r|^(D−1) with A = 2 π^(D/2) / Γ(D/2). Hence

            H[w] = Σ log σ + log A + (D−1) E[log |r|] + H[|r|],

        with E[log |r|] = −(γ + log 2)/2 and H[|r|] = (1 + log(π/2))/2.
        """
        size = mean.numel()
        # The constant is added per weight: as separate sums both parts would be large and cancel.
        per_weight = math.log(self.prior_std) + _noise_constant(size) / size
        second_moment = mean.square() + scale.square() / size
        return (per_weight - scale.log() + second_moment / (2 * self.prior_std**2)).sum()


def _noise_constant(size: int) -> float:
    """D/2 log(2π) − H[x]: the part of the KL that does not depend on μ, σ or the prior's width."""
    log_area = math.log(2.0) + size / 2 * math.log(math.pi) - math.lgamma(size / 2)
    mean_log_distance = -(_EULER_GAMMA + math.log(2.0)) / 2
    distance_entropy = (1.0 + math.log(math.pi / 2)) / 2
    entropy = log_area + (size - 1) * mean_log_distance + distance_entropy
    return size / 2 * math.log(2 * math.pi) - entropy
