"""Run a network without keeping its activations for the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from felbo.inputs import map_tensors


def recomputed(network: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Return ``network(*args, **kwargs)``; the backward pass computes the activations once more.

    Random numbers are repeated, and the second pass leaves the running statistics of batch
    normalisation as the first one left them, so that values, gradients and buffers are those of a
    plain call.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        # On copies: a network that overwrites its input would start its second pass from that.
        return network(*map_tensors(Tensor.clone, args), **map_tensors(Tensor.clone, kwargs))

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _buffers_kept(network)

    return checkpoint(run, *args, use_reentrant=False, context_fn=contexts, **kwargs)


@contextmanager
def _buffers_kept(network: nn.Module) -> Iterator[None]:
    kept = [buffer.clone() for buffer in network.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in zip(network.buffers(), kept, strict=True):
                buffer.copy_(value)
