"""Forward pass of batch and measurement points with the same draws, and the draws of a KL term."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from felbo import dirichlet
from felbo.errors import InputTypeError, ShapeError
from felbo.inputs import Inputs, batch_size, concatenate, map_tensors
from felbo.models import StochasticClassifier, unwrap

# Lower bound of probabilities, effective only without smoothing: a logit more than 230 below the
# largest counts as 230 below it.
SMALLEST = 1e-100

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def forward_once(
    model: StochasticClassifier,
    x: Inputs,
    points: Sequence[Inputs | None],
    with_batch: Sequence[bool],
    num_samples: int | None,
) -> tuple[Tensor, list[tuple[Tensor, Inputs]]]:
    """Return logits of the batch and of every set of points, from one pass with shared draws.

    Batch normalisation in training mode sees batch and points together. With running statistics for
    the points, a network could distinguish them from the data by the normalisation alone, and would
    treat test data, which are normalised by running statistics too, as points from elsewhere.

    Args:
        model: in training or evaluation mode.
        x: the batch ``[B, ...]``.
        points: sets of points beside the batch, each ``[S, ...]`` or ``None``.
        with_batch: True for each set that includes the batch.
        num_samples: M; ``None`` takes the model's default.

    Returns:
        Logits of the batch ``[M, B, K]``, and for each set its logits ``[M, S, K]`` and inputs.
    """
    found = [part for part in points if part is not None]
    batch, others = _separate(model, x, found, num_samples)
    remaining = iter(others)
    measured = []
    for part, joined in zip(points, with_batch, strict=True):
        if part is None:
            measured.append((batch, x))
            continue
        logits = next(remaining)
        if joined:
            logits, part = torch.cat([batch, logits], dim=1), concatenate([x, part])
        measured.append((logits, part))
    return batch, measured


def _separate(
    model: StochasticClassifier, x: Inputs, points: Sequence[Inputs], num_samples: int | None
) -> tuple[Tensor, Sequence[Tensor]]:
    """Return logits of the batch and of each set of points."""
    if not points:
        return checked(model(x, num_samples), batch_size(x)), []
    sizes = [batch_size(part) for part in (x, *points)]
    logits = checked(model(concatenate([x, *points]), num_samples), sum(sizes))
    batch, *others = torch.split(logits, sizes, dim=1)
    return batch, others


def forward_points(model: StochasticClassifier, points: Inputs, num_samples: int | None) -> Tensor:
    """Return logits ``[M, S, K]`` at points, without updating batch-normalisation statistics.

    The model is called without its wrapper: those of mixed precision and of several processes
    expect a training step after each call.
    """
    model = unwrap(model)
    kinds = [p.dtype for p in model.parameters() if p.is_floating_point()]
    points = map_tensors(lambda p: p.to(kinds[0]) if kinds and p.is_floating_point() else p, points)
    norms = [part for part in model.modules() if isinstance(part, BATCH_NORMS) and part.training]
    for norm in norms:
        norm.eval()
    try:
        return checked(model(points, num_samples), batch_size(points))
    finally:
        for norm in norms:
            norm.train()


def smoothed_draws(logits: Tensor, smoothing: float) -> Tensor:
    """Return the draws of a KL term, ``f = (1 − γ) softmax(logits) + γ / K``, in float64."""
    return dirichlet.smooth(logits.double().softmax(-1), smoothing).clamp(min=SMALLEST)


def checked(logits: Tensor, items: int) -> Tensor:
    """Return ``logits``; raise unless they are ``[M, items, K]`` with K ≥ 2."""
    if not isinstance(logits, Tensor) or logits.dim() != 3:
        shape = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise InputTypeError(
            "A stochastic classifier gives logits [M, B, K] (draws, items, classes), got "
            f"{shape}. Wrap a plain network, for instance as felbo.MAP(network)."
        )
    if logits.shape[1] != items or logits.shape[2] < 2:
        raise ShapeError(
            f"Expected logits of {items} items and at least 2 classes, shape [M, {items}, K], "
            f"got {list(logits.shape)}. The network must return one row of K logits per input."
        )
    return logits
