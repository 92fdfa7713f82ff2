"""What other people do about overconfidence, as ways to fine-tune a trained network."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import felbo
from felbo.inputs import Inputs


class NormalisedLogits(nn.Module):
    """``φ(x) / (temperature · ‖φ(x)‖)``, so that a network cannot grow sure by growing its logits.

    Wei, Xie, Cheng, Feng, An and Li (2022), "Mitigating Neural Network Overconfidence with Logit
    Normalization"; the temperature is theirs for CIFAR-10.
    """

    def __init__(self, network: nn.Module, temperature: float = 0.04) -> None:
        super().__init__()
        self.network, self.temperature = network, temperature

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return normalised logits ``[B, K]``."""
        logits: Tensor = self.network(*args, **kwargs)
        length = torch.linalg.vector_norm(logits, dim=-1, keepdim=True).clamp(min=1e-7)
        normalised: Tensor = logits / (self.temperature * length)
        return normalised


def smoothed_labels(model: felbo.StochasticClassifier, x: Inputs, y: Tensor) -> felbo.Loss:
    """Cross-entropy to labels of which a tenth is spread over all classes.

    Müller, Kornblith and Hinton (2019), "When Does Label Smoothing Help?".
    """
    logits = model(x)
    loss = F.cross_entropy(logits.flatten(0, 1), y.repeat(len(logits)), label_smoothing=0.1)
    return felbo.Loss(loss, loss, torch.zeros_like(loss))


def energy(model: felbo.StochasticClassifier, x: Tensor, batch_size: int = 500) -> Tensor:
    """Return ``−log Σ_k exp φ_k(x)`` of a single network, ``[N]``: larger is less familiar.

    Liu, Wang, Owens and Li (2020), "Energy-based Out-of-distribution Detection".
    """
    with torch.no_grad():
        return torch.cat([-model(part)[0].logsumexp(-1) for part in torch.split(x, batch_size)])
