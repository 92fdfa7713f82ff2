r"""A model as one deterministic graph: inputs to probabilities and epistemic uncertainty.

Draws are fixed, so that the same input always gives the same output; the Dirichlet is fitted by a
fixed number of Newton steps, see :mod:`felbo.dirichlet.precision`; and :math:`\psi`, which ONNX
does not have, is computed from :math:`h(x) = x (\log x - \psi(x))`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from felbo import dirichlet
from felbo.dirichlet.special import h, h_rational, q_rational
from felbo.inputs import Inputs

# From a start within 1 % of the root, each step leaves less than a hundredth of the error.
STEPS = 4


class PredictionGraph(nn.Module):
    """From inputs ``[B, ...]`` to probabilities ``[B, K]`` and epistemic uncertainty ``[B]``.

    Args:
        draws: from inputs to logits ``[M, B, K]``, always the same.
        num_data: upper bound of the precision.
        smoothing: γ of the draws, above 0.
        gives_concentration: the logits are log α ``[1, B, K]``.
        is_random: draws can differ; else the epistemic uncertainty is NaN.
        prepare: from the inputs of a user to those of the model.
    """

    def __init__(
        self,
        draws: nn.Module,
        *,
        num_data: int,
        smoothing: float,
        gives_concentration: bool,
        is_random: bool,
        prepare: nn.Module,
    ) -> None:
        super().__init__()
        self.draws, self.prepare = draws, prepare
        self.num_data, self.smoothing = num_data, smoothing
        self.gives_concentration, self.is_random = gives_concentration, is_random

    def forward(self, x: Inputs) -> tuple[Tensor, Tensor]:
        """Return probabilities and epistemic uncertainty in nats."""
        logits = self.draws(self.prepare(x))
        probs = logits.softmax(-1)
        if self.gives_concentration:
            return probs[0], epistemic(logits[0].double().exp()).to(probs.dtype)
        mean = probs.mean(0)
        if not self.is_random:
            return mean, torch.full_like(mean[:, 0], torch.nan)
        spread = dirichlet.spread(dirichlet.smooth(probs.double(), self.smoothing))
        center = dirichlet.smooth(mean.double(), self.smoothing)
        precision = fitted_precision(center, spread, self.num_data)
        return mean, epistemic(precision.unsqueeze(-1) * center).to(probs.dtype)


def fitted_precision(mean: Tensor, spread: Tensor, num_data: int) -> Tensor:
    """Return the precision ``[B]`` of draws with positive mean ``[B, K]`` and spread ``[B]``.

    The same equation as :func:`felbo.dirichlet.fit_spread`, without a test of convergence.

    Example:
        >>> mean, spread = torch.tensor([[0.5, 0.5]]).double(), torch.tensor([0.1]).double()
        >>> exact = dirichlet.fit_spread(mean, spread, max_precision=100).precision
        >>> torch.allclose(fitted_precision(mean, spread, 100), exact, rtol=1e-6)
        True
    """
    classes = mean.shape[-1]
    lower, upper = float(classes), float(max(num_data, classes))
    half = 0.5 * (classes - 1)
    z = (1.414 * half / spread).clamp(lower, upper)
    for step in range(STEPS + 1):
        h_less_half = h_rational if step == 0 else h
        x = z.unsqueeze(-1) * mean
        g = half + h_less_half(x).sum(-1) - h_less_half(z)
        q = half + 0.5 * (q_rational(x).sum(-1) - q_rational(z))
        z = (z * (g / (z * spread)) ** (g / q)).clamp(lower, upper)
    return z


def epistemic(alpha: Tensor) -> Tensor:
    r"""Return the mutual information of label and prediction ``[B]``, in nats.

    .. math:: \sum_k \bar a_k (\psi(\alpha_k + 1) - \psi(z + 1) - \log \bar a_k)

    Args:
        alpha: concentration ``[B, K]``, float64.
    """
    z = alpha.sum(-1, keepdim=True)
    mean = alpha / z
    terms = mean * (digamma(alpha + 1) - digamma(z + 1) - mean.log())
    return terms.sum(-1).clamp(min=0.0)


def digamma(x: Tensor) -> Tensor:
    r"""Return :math:`\psi(x) = \log x - h(x) / x` for x ≥ 1 in float64, to about 1e-8."""
    return x.log() - (h(x) + 0.5) / x


class Numbers(nn.Module):
    """Fills in missing numbers and standardises them, as the preprocessing of a table does."""

    medians: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, medians: Tensor, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("medians", medians)
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    def forward(self, x: Tensor) -> Tensor:
        """Map numbers ``[B, D]`` to features ``[B, D]``."""
        filled = torch.where(x.isnan(), self.medians, x)
        # Rounded to float32 as the features that the model was trained on.
        return ((filled - self.mean) / self.scale).float().double()


class Pixels(nn.Module):
    """Normalises images with values 0 … 255 by the mean and deviation of each channel."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.view(-1, 1, 1))
        self.register_buffer("scale", scale.view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[B, C, H, W]`` to inputs of the same shape."""
        return (x / 255.0 - self.mean) / self.scale
