"""Inputs of a network: one tensor, or a tuple, list or dict of tensors, batch axis first.

A tuple or list holds positional arguments, ``network(*x)``, a dict holds keyword arguments,
``network(**x)``; they may be nested. A network may return its logits or an object that has them as
``.logits``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from felbo.errors import InputTypeError, ShapeError

# A tensor [B, ...], or a tuple, list or mapping of inputs; Any, to avoid a recursive type.
Inputs = Any


def tensors(x: Inputs) -> Iterator[Tensor]:
    """Yield every tensor of the inputs, in order.

    Raises:
        TypeError: if the inputs contain anything other than tensors.
    """
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, Mapping):
        for part in x.values():
            yield from tensors(part)
    elif isinstance(x, tuple | list):
        for part in x:
            yield from tensors(part)
    else:
        raise InputTypeError(
            f"Inputs must be a tensor, or a tuple, list or dict of tensors; got {type(x).__name__}."
        )


def map_tensors(function: Callable[[Tensor], Tensor], x: Inputs) -> Inputs:
    """Return inputs of the same structure with ``function`` applied to every tensor."""
    if isinstance(x, Tensor):
        return function(x)
    if isinstance(x, Mapping):
        return {name: map_tensors(function, part) for name, part in x.items()}
    if isinstance(x, tuple | list):
        return tuple(map_tensors(function, part) for part in x)
    return next(tensors(x))  # raises TypeError


def cloned(x: Inputs) -> Inputs:
    """Return a copy of the inputs, for a function that may write into them.

    Example:
        >>> import torch
        >>> x = {"a": torch.zeros(2)}
        >>> copy = cloned(x)
        >>> copy["a"].add_(1.0), x["a"]
        (tensor([1., 1.]), tensor([0., 0.]))
    """
    return map_tensors(Tensor.clone, x)


def batch_size(x: Inputs) -> int:
    """Return B, the number of items, which must be the same for all tensors."""
    if isinstance(x, Tensor) and x.dim():
        return x.shape[0]
    # A list, since sizes that torch.export traces cannot be members of a set.
    sizes = [part.shape[0] if part.dim() else 0 for part in tensors(x)]
    if not sizes or any(size != sizes[0] for size in sizes):
        raise ShapeError(
            "All tensors of an input must have the same number of items on their first axis, "
            f"got sizes {sorted(set(sizes))}."
        )
    return sizes[0]


def concatenate(parts: Sequence[Inputs]) -> Inputs:
    """Concatenate inputs of the same structure along the batch axis."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, Tensor):
        return torch.cat(list(parts))
    if isinstance(first, Mapping):
        return {name: concatenate([part[name] for part in parts]) for name in first}
    return tuple(concatenate(column) for column in zip(*parts, strict=True))


def arguments(x: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the ``(args, kwargs)`` of a network's call on ``x``."""
    if isinstance(x, Mapping):
        return (), dict(x)
    return (tuple(x), {}) if isinstance(x, tuple | list) else ((x,), {})


def logits_of(output: Any) -> Tensor:
    """Return the logits in a network's output: the output itself or its ``.logits``."""
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        raise InputTypeError(
            "A network must return its logits [B, K] as a tensor, or an object with .logits; "
            f"got {type(output).__name__}."
        )
    return logits


def call(network: Callable[..., Any], x: Inputs) -> Tensor:
    """Call ``network`` on ``x`` and return its logits, of any shape."""
    if isinstance(x, Tensor):
        return logits_of(network(x))
    args, kwargs = arguments(x)
    return logits_of(network(*args, **kwargs))


def run(network: Callable[..., Any], x: Inputs) -> Tensor:
    """Call ``network`` on ``x`` and return its logits ``[B, K]``; raise for any other shape.

    Example:
        >>> import torch
        >>> run(torch.nn.Bilinear(2, 3, 4), (torch.zeros(5, 2), torch.zeros(5, 3))).shape
        torch.Size([5, 4])
    """
    batch = batch_size(x)
    logits = call(network, x)
    check_logits(logits.shape, batch)
    return logits


def run_on_copy(network: Callable[..., Any], x: Inputs) -> tuple[Tensor, bool]:
    """Return the logits of ``network`` on a copy of ``x``, and whether it left the copy as it is.

    Where values cannot be read, as under ``torch.func.vmap``, the answer is False.

    Example:
        >>> import torch
        >>> x = torch.ones(2, 2)
        >>> run_on_copy(lambda x: x.mul_(3.0), x)[1], run_on_copy(lambda x: x * 3.0, x)[1]
        (False, True)
    """
    own = cloned(x)
    logits = run(network, own)
    try:
        pairs = zip(tensors(own), tensors(x), strict=True)
        # NaN where there was NaN is no change.
        same = (((a == b) | ((a != a) & (b != b))).all() for a, b in pairs)
        return logits, all(map(bool, same))
    except RuntimeError:
        return logits, False


def check_logits(shape: torch.Size, batch: int) -> None:
    """Raise unless logits of this shape are ``[B, K]``: one row per input, and K ≥ 2."""
    if len(shape) == 2 and shape[0] == batch and shape[1] >= 2:
        return
    problem = (
        f"A network must give logits [{batch}, K] for {batch} inputs, K ≥ 2; got {list(shape)}."
    )
    if shape in ((batch,), (batch, 1)):
        raise ShapeError(
            f"{problem} A binary problem takes two logits per input: give the last layer two "
            "outputs, or return torch.cat([torch.zeros_like(logit), logit], -1) for a logit [B, 1]."
        )
    if len(shape) == 2 and shape[0] != batch:
        raise ShapeError(
            f"{problem} Its rows are not the inputs: does it merge another axis into the batch, "
            "or expect the batch on another axis?"
        )
    raise ShapeError(f"{problem} Average over or flatten the other axes before the last layer.")


@contextmanager
def explained(x: Inputs, model: nn.Module) -> Iterator[None]:
    """Context manager: add a note to errors of a forward pass if dtypes or axes do not match."""
    try:
        yield
    except (RuntimeError, IndexError) as error:
        note_dtypes(error, x, model)
        if all(part.dim() == 1 for part in tensors(x)):
            error.add_note(
                "The inputs have one axis, which counts the items: a single input needs another "
                "one before its own, x.unsqueeze(0)."
            )
        raise


def note_dtypes(error: Exception, x: Inputs, model: nn.Module) -> None:
    """Add a note to the error of a forward pass if dtypes do not match."""
    weights = {str(part.dtype) for part in model.parameters()}
    found = {str(part.dtype) for part in tensors(x)}
    if not found <= weights:
        error.add_note(
            f"The inputs are {', '.join(sorted(found))} and the weights "
            f"{', '.join(sorted(weights))}: unless the network embeds such inputs, convert "
            "them, e.g. with x.float()."
        )


def as_inputs(x: Any, dtype: torch.dtype) -> Inputs:
    """Convert numpy arrays, DataFrames and other array-likes to tensors.

    Args:
        x: a tensor, an array, or a tuple, list or mapping of them. Tensors are returned unchanged.
        dtype: of floating-point arrays; integer arrays keep theirs.
    """
    if isinstance(x, Tensor):
        return x
    if isinstance(x, Mapping):
        return {name: as_inputs(part, dtype) for name, part in x.items()}
    if isinstance(x, tuple | list) and x and not isinstance(x[0], int | float | np.generic | list):
        return tuple(as_inputs(part, dtype) for part in x)
    array = np.asarray(x)
    if array.dtype == object and all(isinstance(value, Real | np.bool_) for value in array.flat):
        array = array.astype(np.float64)  # of columns of several types, such as bool and float
    if array.dtype.kind not in "fiub":
        raise InputTypeError(
            f"Inputs must be numbers, got an array of dtype {array.dtype}: encode text and "
            "categories as numbers first, and fill in missing values."
        )
    tensor = torch.as_tensor(np.require(array, requirements=["C", "W"]))
    return tensor.to(dtype) if array.dtype.kind == "f" else tensor


def split_labels(batch: Any) -> tuple[Inputs, Tensor]:
    """Return ``(x, y)`` of a loader's batch, which is a pair or a dict with ``"labels"``."""
    if isinstance(batch, Mapping) and "labels" in batch:
        return {key: part for key, part in batch.items() if key != "labels"}, batch["labels"]
    if isinstance(batch, tuple | list) and len(batch) == 2 and isinstance(batch[1], Tensor):
        return batch[0], batch[1]
    parts = [type(part).__name__ for part in batch] if isinstance(batch, tuple | list) else ""
    raise InputTypeError(
        "A batch must be a pair (x, y) of inputs and a tensor of labels, or a dict with the labels "
        f"under 'labels'; the loader gave a {type(batch).__name__} {parts}."
    )


def as_labels(y: Any) -> Tensor:
    """Convert labels ``[B]`` to an int64 tensor; raise for floats that are not integers."""
    labels = y if isinstance(y, Tensor) else torch.as_tensor(_label_array(y))
    whole = labels.long()
    if labels.is_floating_point() and not bool((whole == labels).all()):
        raise InputTypeError(
            f"Labels must be integer class indices 0 … K − 1, got {labels.dtype} with values "
            "that are not integers."
        )
    return whole


def check_one_label_each(labels: Tensor, items: int) -> None:
    """Raise unless ``labels`` has the shape ``[items]``."""
    if labels.shape == (items,):
        return
    advice = ""
    if labels.shape[1:] == (1,):
        advice = " A column of labels is turned into a row with labels.squeeze(-1)."
    elif labels.dim() > 1:
        advice = " One-hot labels are turned into indices with labels.argmax(-1)."
    raise ShapeError(
        f"Expected one label per input, shape [{items}], got {list(labels.shape)}.{advice}"
    )


def _label_array(y: Any) -> Any:
    array = np.asarray(y)
    if array.dtype.kind not in "fiub":
        raise InputTypeError(
            f"Labels must be integer class indices 0 … K − 1, got an array of dtype {array.dtype}. "
            "scikit-learn's LabelEncoder turns other labels into indices."
        )
    return np.require(array, requirements=["C", "W"])
