"""Run a network without keeping its activations for the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def recomputed(network: nn.Module, x: Tensor) -> Tensor:
    """Return ``network(x)``; the backward pass computes the activations a second time.

    Random numbers are repeated, and the second pass leaves the running statistics of batch
    normalisation as the first one left them, so that values, gradients and buffers are those of
    ``network(x)``.
    """

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _buffers_kept(network)

    result: Tensor = checkpoint(network, x, use_reentrant=False, context_fn=contexts)
    return result


@contextmanager
def _buffers_kept(network: nn.Module) -> Iterator[None]:
    kept = [buffer.clone() for buffer in network.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in zip(network.buffers(), kept, strict=True):
                buffer.copy_(value)
