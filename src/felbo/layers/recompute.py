"""Activation checkpointing: run a network without storing activations for the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from felbo.inputs import cloned
from felbo.layers.hooks import has_hooks


def recomputed(network: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Return ``network(*args, **kwargs)``; the backward pass recomputes the activations.

    Of an ``nn.Sequential``, the backward pass holds one half at a time: the first half, which has
    the larger activations in most networks, is computed a third time when its turn comes.

    Random numbers are repeated, and the later passes leave the running statistics of batch
    normalisation as the first one left them, so that values, gradients and buffers are those of a
    plain call.
    """
    function: Callable[..., Any] = network
    # A subclass may do more than call its children in turn, and hooks would be skipped.
    if type(network) is nn.Sequential and len(network) > 1 and not has_hooks(network):
        first, second = network[: len(network) // 2], network[len(network) // 2 :]

        def function(*args: Any, **kwargs: Any) -> Any:
            return second(_checkpointed(first, first, *args, **kwargs))

    return _checkpointed(network, function, *args, **kwargs)


def _checkpointed(owner: nn.Module, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of the layers of ``owner``, storing only its inputs for the backward pass."""

    def run(*args: Any, **kwargs: Any) -> Any:
        # On copies: a network that overwrites its input would recompute from the overwritten one.
        return function(*cloned(args), **cloned(kwargs))

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _buffers_kept(owner)

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
