"""Argument checks of the Dirichlet functions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from felbo.errors import DataError, InputTypeError, SettingError, ShapeError

# Loose enough for the rounding of a float32 softmax over thousands of classes.
SUM_TOLERANCE = 1e-4


def _check_dtype(name: str, value: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise InputTypeError(f"{name} must be a torch.Tensor, got {type(value).__name__}.")
    if value.dtype not in (torch.float32, torch.float64):
        raise InputTypeError(
            f"{name} must be float32 or float64, got {value.dtype}; convert it with {name}.float()."
        )


def check_draws(probs: Tensor) -> None:
    """Raise unless draws are a float32 or float64 tensor ``[M, ..., K]``, M >= 1 and K >= 2."""
    _check_dtype("probs", probs)
    if probs.ndim < 2:
        raise ShapeError(
            "probs must have shape [M, ..., K] (draws first, classes last), "
            f"got {list(probs.shape)} with {probs.ndim} dimension(s)."
        )
    if probs.shape[0] < 1:
        raise ShapeError(f"probs must hold at least one draw, got shape {list(probs.shape)}.")
    if probs.shape[-1] < 2:
        raise ShapeError(
            f"probs must have K >= 2 classes in its last dimension, got K = {probs.shape[-1]}."
        )


def check_spread(mean: Tensor, spread: Tensor) -> None:
    """Raise unless the mean is ``[..., K]`` with K >= 2 and the spread is ``[...]``."""
    _check_dtype("mean", mean)
    _check_dtype("spread", spread)
    if mean.ndim < 1 or mean.shape[-1] < 2 or spread.shape != mean.shape[:-1]:
        raise ShapeError(
            "mean must have shape [..., K] with K >= 2, and spread one number per item, [...]; "
            f"got {list(mean.shape)} and {list(spread.shape)}."
        )


def check_simplex(probs: Tensor) -> None:
    """Raise if draws ``[M, ..., K]`` are not probabilities; the message has the first bad index."""
    if probs.numel() == 0:
        return
    # NaN and infinities propagate to the sums, so one matmul, one reduction and one comparison
    # cover every case; the bad index is searched for only after a failure.
    # Under autocast the matmul would have 8 bits.
    with torch.autocast(probs.device.type, enabled=False):
        sums = probs.detach() @ probs.new_ones(probs.shape[-1])
    if bool(((sums - 1).abs().amax() <= SUM_TOLERANCE) & (probs.amin() >= 0)):
        return
    bad = ~(probs >= 0) | probs.isinf()
    if bool(bad.any()):
        index = tuple(bad.nonzero()[0].tolist())
        raise DataError(
            "probs must be finite and not negative, "
            f"got {probs[index].item()} at index {list(index)} (draw first, class last)."
        )
    index = tuple(((sums - 1).abs() > SUM_TOLERANCE).nonzero()[0].tolist())
    raise DataError(
        f"probs must sum to one over the last dimension (within {SUM_TOLERANCE}), "
        f"got {sums[index].item()} at index {list(index)}; pass probabilities, not logits."
    )


def check_bracket(min_precision: float, max_precision: float) -> None:
    """Raise unless the precision bracket satisfies ``0 < min <= max < inf``."""
    for name, value in (("min_precision", min_precision), ("max_precision", max_precision)):
        if not (0 < value < math.inf):
            raise SettingError(f"{name} must be positive and finite, got {value}.")
    if min_precision > max_precision:
        given = f"{min_precision} > {max_precision} (min_precision is K unless given)"
        raise SettingError(f"min_precision must not exceed max_precision, got {given}.")
