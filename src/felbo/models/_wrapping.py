"""Check and copy a user's network for use inside a model; the original is not changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from felbo.errors import InputTypeError, SettingError
from felbo.models._conversion import replace_layers
from felbo.models.base import StochasticClassifier
from felbo.models.copying import deep_copy


def own_copy(network: nn.Module) -> nn.Module:
    """Return a deep copy of ``network`` with all ``torch.compile`` wrappers removed.

    A compiled module may run code that ignores later changes, such as inserted dropout.
    Compile the model instead: ``torch.compile(felbo.MAP(network))``.

    Raises:
        TypeError: if it is not a plain network.
        ValueError: if it ends in a softmax.
    """
    check_network(network)
    own = deep_copy(_uncompiled(network))
    compiled = {name: part for name, part in own.named_modules() if _is_compiled(part)}
    return replace_layers(own, compiled, _uncompiled)


def check_network(network: Any) -> None:
    """Raise unless ``network`` is a plain network whose outputs can be logits."""
    if isinstance(network, StochasticClassifier):
        raise InputTypeError(
            f"Expected a plain network, got {type(network).__name__}, which is a stochastic "
            "classifier already."
        )
    if not isinstance(network, nn.Module):
        hint = " Call it first, and pass the network that it builds." if callable(network) else ""
        raise InputTypeError(f"Expected a network (nn.Module), got {type(network).__name__}.{hint}")
    last = network
    while isinstance(last, nn.Sequential) and len(last):
        last = last[-1]
    # nn.LogSoftmax is fine: log-probabilities are logits.
    if isinstance(last, nn.Softmax | nn.Softmax2d | nn.Sigmoid) and last is not network:
        raise SettingError(
            f"The network ends in nn.{type(last).__name__}, so that it gives probabilities. felbo "
            "takes logits and applies softmax itself: leave out the last layer, e.g. network[:-1]."
        )


def with_weights(network: nn.Module, weights: dict[str, Tensor]) -> Callable[..., Any]:
    """Return a function that runs ``network`` with the given weights in place of its own."""
    return lambda *args, **kwargs: functional_call(network, weights, args, kwargs)


def _uncompiled(module: nn.Module) -> nn.Module:
    """Return the module passed to ``torch.compile``, the only child of the compiled module."""
    while _is_compiled(module):
        (module,) = module.children()
    return module


def _is_compiled(module: nn.Module) -> bool:
    # Only compiled modules have forward as an instance attribute. It is tested first, because
    # calling torch.compile to get the type imports the compiler, which is slow.
    return "forward" in vars(module) and isinstance(module, type(torch.compile(nn.Identity())))
