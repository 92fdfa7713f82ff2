"""Refuse labels and priors that do not fit the model, before any step is taken."""

from __future__ import annotations

import torch
from torch import Tensor

# torch's own losses leave out the label −100 in silence unless told to leave out another one.
NO_LABEL = -(2**63)


def check_labels(labels: Tensor, batch: int, classes: int) -> None:
    """Raise unless ``labels`` is ``[B]`` of integers in 0 … K − 1."""
    check_label_kind(labels, batch)
    check_label_range(labels, classes)


def check_label_kind(labels: Tensor, batch: int) -> None:
    """Raise unless ``labels`` is ``[B]`` of integers."""
    if labels.shape != (batch,):
        raise ValueError(
            f"Expected one label per input, shape [{batch}], got {list(labels.shape)}. "
            "One-hot labels are turned into indices with labels.argmax(-1)."
        )
    if labels.dtype not in (torch.int64, torch.int32, torch.uint8):
        raise TypeError(f"Labels must be integer class indices (int64), got {labels.dtype}.")


def check_label_range(labels: Tensor, classes: int) -> None:
    """Raise unless ``labels`` lie in 0 … K − 1."""
    # On an accelerator the comparison would wait for the device in every step; its own kernels
    # refuse such labels.
    if labels.device.type == "cpu" and len(labels):
        low, high = (int(bound) for bound in torch.aminmax(labels))
        if low < 0 or high >= classes:
            raise ValueError(
                f"Labels must lie in 0 … {classes - 1}, since the model gives {classes} classes; "
                f"got labels from {low} to {high}."
            )


def check_prior(concentration: Tensor, points: int, classes: int) -> None:
    """Raise unless the prior's concentration broadcasts to ``[S, K]``."""
    shape = tuple(concentration.shape)
    if shape[-1:] != (classes,):
        raise ValueError(
            f"The prior has {shape[-1] if shape else 0} classes and the model {classes}. "
            "Build both for the same number of classes."
        )
    if shape[:-1] not in ((), (points,)):
        raise ValueError(
            f"The prior must give one Dirichlet per measurement point, batch shape [{points}] "
            f"(or [] when it does not depend on x), got {list(shape[:-1])}."
        )
