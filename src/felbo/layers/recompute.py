"""Run a network without keeping its activations for the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def recomputed(network: nn.Module, x: Tensor) -> Tensor:
    """Return ``network(x)``; the backward pass computes the activations a second time.

    In a chain of layers (``nn.Sequential``), the links up to the largest activations do not keep
    theirs then either, but compute them a third time when their turn comes: of these, one link at
    a time is held. A chain with layers that overwrite their input (``inplace=True``) is taken as a
    whole.

    Random numbers are repeated, and the later passes leave the running statistics of batch
    normalisation as the first one left them, so that values, gradients and buffers are those of
    ``network(x)``.
    """
    overwrites = any(getattr(module, "inplace", False) for module in network.modules())
    links = [network] if overwrites else list(_links(network))

    def chain(x: Tensor) -> Tensor:
        largest = 0
        for link in links:
            # Between links there may be other things, such as the two results of an LSTM.
            size = x.numel() if isinstance(x, Tensor) else 0
            x = _checked(link, x) if size >= max(largest, 1) else link(x)
            largest = max(largest, size)
        return x

    return _checkpointed(network, chain if len(links) > 1 else network, x)


def _links(network: nn.Module) -> Iterator[nn.Module]:
    # A subclass may do more than call its children in turn, and hooks would be passed over.
    if type(network) is nn.Sequential and not any(getattr(network, hooks) for hooks in _HOOKS):
        for child in network:
            yield from _links(child)
    else:
        yield network


def _checked(link: nn.Module, x: Tensor) -> Tensor:
    version = x._version
    result = _checkpointed(link, link, x)
    if x._version != version:
        # Computed again from what it left behind, its gradients would be wrong.
        raise RuntimeError(
            f"{type(link).__name__} overwrites its input, which low_memory=True has to keep. Use "
            "the form of the operation that does not work in place."
        )
    return result


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
