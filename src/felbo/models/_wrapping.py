"""Take a user's network into a model: check it, copy it, and leave it as it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from felbo.models._conversion import replace_layers
from felbo.models.base import StochasticClassifier


def own_copy(network: nn.Module) -> nn.Module:
    """Return a copy of ``network`` that is the model's own, without any compilation.

    A compiled module runs code in which later changes, such as inserted dropout, may not appear.
    Compile the model instead: ``torch.compile(felbo.MAP(network))``.

    Raises:
        TypeError: if it is no plain network.
        ValueError: if it ends in a softmax.
    """
    check_network(network)
    own = copy.deepcopy(_uncompiled(network))
    compiled = {name: part for name, part in own.named_modules() if _is_compiled(part)}
    return replace_layers(own, compiled, _uncompiled)


def check_network(network: Any) -> None:
    """Raise unless ``network`` is a plain network whose outputs can be logits."""
    if isinstance(network, StochasticClassifier):
        raise TypeError(
            f"Expected a plain network, got {type(network).__name__}, which is a stochastic "
            "classifier already."
        )
    if not isinstance(network, nn.Module):
        hint = " Call it first, and pass the network that it builds." if callable(network) else ""
        raise TypeError(f"Expected a network (nn.Module), got {type(network).__name__}.{hint}")
    last = network
    while isinstance(last, nn.Sequential) and len(last):
        last = last[-1]
    # nn.LogSoftmax is no problem: log-probabilities are logits.
    if isinstance(last, nn.Softmax | nn.Softmax2d | nn.Sigmoid) and last is not network:
        raise ValueError(
            f"The network ends in nn.{type(last).__name__}, so that it gives probabilities. felbo "
            "takes logits and applies softmax itself: leave out the last layer, e.g. network[:-1]."
        )


def with_weights(network: nn.Module, weights: dict[str, Tensor]) -> Callable[..., Any]:
    """Return ``network`` as a function that runs it with other weights, given by their names."""
    return lambda *args, **kwargs: functional_call(network, weights, args, kwargs)


def _uncompiled(module: nn.Module) -> nn.Module:
    """Return what ``torch.compile`` was given: the only child of what it returned."""
    while _is_compiled(module):
        (module,) = module.children()
    return module


def _is_compiled(module: nn.Module) -> bool:
    # Only such a module has a forward of its own and not of its class; asking torch.compile for its
    # type loads the compiler, which takes time.
    return "forward" in vars(module) and isinstance(module, type(torch.compile(nn.Identity())))
