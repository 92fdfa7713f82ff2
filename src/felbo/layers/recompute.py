"""Run a network without keeping its activations for the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def recomputed(network: nn.Module, x: Tensor) -> Tensor:
    """Return ``network(x)``; the backward pass computes the activations a second time.

    In a chain of layers (``nn.Sequential``), the links up to the largest activations do not keep
    theirs then either, but compute them a third time when their turn comes: of these, one link at
    a time is held.

    Random numbers are repeated, and the later passes leave the running statistics of batch
    normalisation as the first one left them, so that values, gradients and buffers are those of
    ``network(x)``.
    """
    links = list(_links(network))

    def chain(x: Tensor) -> Tensor:
        largest = 0
        for link in links:
            grows = x.numel() >= largest
            largest = max(largest, x.numel())
            x = _checkpointed(link, link, x) if grows else link(x)
        return x

    return _checkpointed(network, chain if len(links) > 1 else network, x)


def _links(network: nn.Module) -> Iterator[nn.Module]:
    # A subclass may do more than call its children in turn, and hooks would be passed over.
    hooked = network._forward_hooks or network._forward_pre_hooks or network._backward_hooks
    if type(network) is nn.Sequential and not hooked:
        for child in network:
            yield from _links(child)
    else:
        yield network


def _checkpointed(owner: nn.Module, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Call a function of the layers of ``owner``, keeping nothing but its input."""

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _buffers_kept(owner)

    result: Tensor = checkpoint(function, x, use_reentrant=False, context_fn=contexts)
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
