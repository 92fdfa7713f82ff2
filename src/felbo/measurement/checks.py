"""Check that measurement points match the batch, and that a set supports the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from felbo.errors import DataError, InputTypeError, ShapeError
from felbo.inputs import Inputs, batch_size, tensors


def checked_points(points: Inputs | None, x: Inputs, source: str = "The measurement set") -> Inputs:
    """Return ``points`` if they can be concatenated with the batch, else raise.

    Points must have the structure, item shape, device and, where the batch is floating, the dtype
    of the batch; there must be at least one, and none may be NaN. NaN is checked on the CPU only,
    since on an accelerator the check would synchronise in every step.

    Args:
        points: the result of a measurement set.
        x: inputs of the batch.
        source: name of the measurement set in error messages.

    Raises:
        TypeError: if the points do not have the structure of the batch.
        ValueError: if the points do not match the batch.
    """
    if points is None:
        raise DataError(
            f"{source} returned None, and so no points. For the batch alone use "
            "felbo.measurement.Batch()."
        )
    map_pairs(lambda part, of_batch: _checked(part, of_batch, source), points, x)
    if batch_size(points) == 0:
        raise ShapeError(f"{source} returned no points; at least one is needed.")
    return points


def map_pairs(function: Callable[[Tensor, Tensor], Tensor], points: Inputs, x: Inputs) -> Inputs:
    """Apply ``function`` to each tensor of the points and its counterpart in the batch."""
    if isinstance(x, Tensor) and isinstance(points, Tensor):
        return function(points, x)
    if isinstance(x, Mapping) and isinstance(points, Mapping) and x.keys() == points.keys():
        return {name: map_pairs(function, points[name], x[name]) for name in x}
    if isinstance(x, tuple | list) and isinstance(points, tuple | list) and len(x) == len(points):
        return tuple(map_pairs(function, a, b) for a, b in zip(points, x, strict=True))
    next(tensors(x))  # raises if the batch itself is not a structure of tensors
    raise InputTypeError(
        f"Points must be {_described(x)}, as the batch is, got {_described(points)}. "
        "Return the same structure for the points as for the batch."
    )


def like(points: Tensor, x: Tensor) -> Tensor:
    """Return points on the device of the batch, and in its dtype if both are floating-point."""
    both = points.is_floating_point() and x.is_floating_point()
    return points.to(x.device, x.dtype if both else points.dtype)


def one_tensor(x: Inputs, source: str) -> Tensor:
    """Return ``x`` if it is one tensor ``[B, C, ...]`` with at least one item, else raise."""
    if not isinstance(x, Tensor):
        raise InputTypeError(
            f"{source} needs inputs that are one tensor, got {_described(x)}. For other inputs "
            "write a function from the batch to points, and pass that: Augmented(function)."
        )
    if x.dim() < 2 or len(x) == 0:
        raise ShapeError(f"{source} needs a batch [B, C, ...] of B ≥ 1, got {list(x.shape)}.")
    return x


def _checked(points: Tensor, x: Tensor, source: str) -> Tensor:
    if points.dim() == 0 or points.shape[1:] != x.shape[1:]:
        raise ShapeError(
            f"{source} must keep the shape of an input: expected [S, ...] with "
            f"{list(x.shape[1:])} after the first axis, got {list(points.shape)}."
        )
    if points.device != x.device:
        raise DataError(
            f"{source} returned points on {points.device}, but the batch is on {x.device}; "
            "move them with points.to(x.device)."
        )
    # Concatenation with a wider dtype would change the dtype of the batch.
    if x.is_floating_point() and torch.promote_types(points.dtype, x.dtype) != x.dtype:
        raise DataError(
            f"{source} returned points of {points.dtype}, but the batch is {x.dtype}; "
            "convert them with points.to(x.dtype)."
        )
    if points.device.type == "cpu" and _has_nan(points):
        good = not x.is_floating_point() or bool(x.isfinite().all())
        where = "though the batch is finite" if good else "and the batch holds NaN or infinity"
        raise DataError(f"{source} returned points that contain NaN, {where}.")
    return points


def _has_nan(values: Tensor) -> bool:
    if not values.is_floating_point():
        return False
    # Cheap test first: the sum is NaN if any value is, but also after inf − inf.
    with torch.no_grad():
        return bool(values.sum().isnan()) and bool(values.isnan().any())


def _described(x: object) -> str:
    if isinstance(x, Mapping):
        return f"a dict with the keys {list(x)}"
    if isinstance(x, tuple | list):
        return f"a {type(x).__name__} of {len(x)}"
    return "a tensor" if isinstance(x, Tensor) else f"{type(x).__name__}"
