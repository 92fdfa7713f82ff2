"""From images as bytes to the inputs of a network."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from felbo.data import normalize
from felbo.workflow.folder import Run


def preparation(images: Tensor) -> dict[str, Any]:
    """Return size, and mean and deviation of the pixels of each channel.

    Args:
        images: uint8 ``[N, C, H, W]`` of the training.
    """
    pixels = images.float().div(255.0)
    deviation = pixels.std((0, 2, 3)).clamp(min=1e-3)
    return {
        "size": images.shape[-1],
        "mean": pixels.mean((0, 2, 3)).tolist(),
        "std": deviation.tolist(),
    }


def inputs(images: Tensor, prepared: dict[str, Any]) -> Tensor:
    """Return images as a network takes them: float32, normalised by what the training found."""
    return normalize(images, prepared["mean"], prepared["std"])


def channels(run: Run) -> int:
    """Return the channels of the images that a run was trained on: 1 or 3."""
    return len(run.preparation["mean"])
