"""M fully connected networks of one shape, run as one batched computation."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor, nn

from felbo.errors import ShapeError
from felbo.layers.hooks import has_hooks

# These act elementwise, so they give the same result on [B, D] and on [M, B, D].
_ELEMENTWISE = (
    nn.ReLU,
    nn.Tanh,
    nn.Sigmoid,
    nn.GELU,
    nn.SiLU,
    nn.ELU,
    nn.LeakyReLU,
    nn.Softplus,
    nn.Identity,
)


class StackedLinear(nn.Module):
    """M linear layers: ``weight [M, out, in]``, ``bias [M, out]``."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([layer.weight.detach() for layer in layers]))
        biases = [layer.bias for layer in layers if layer.bias is not None]
        self.bias = nn.Parameter(torch.stack([b.detach() for b in biases])) if biases else None

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[B, in]`` (shared by all members) or ``[M, B, in]`` to ``[M, B, out]``."""
        members, outputs, inputs = self.weight.shape
        if x.dim() == 2:
            # All members read the same input: one wide matmul instead of M narrow ones.
            bias = None if self.bias is None else self.bias.reshape(-1)
            wide = nn.functional.linear(x, self.weight.reshape(-1, inputs), bias)
            return wide.view(len(x), members, outputs).transpose(0, 1)
        if self.bias is None:
            return torch.bmm(x, self.weight.mT)
        return torch.baddbmm(self.bias.unsqueeze(1), x, self.weight.mT)

    def member(self, index: int) -> nn.Linear:
        """Return layer ``index`` as an ``nn.Linear`` with a copy of its weights."""
        _, outputs, inputs = self.weight.shape
        layer = nn.Linear(
            inputs,
            outputs,
            bias=self.bias is not None,
            device=self.weight.device,
            dtype=self.weight.dtype,
        )
        with torch.no_grad():
            layer.weight.copy_(self.weight[index])
            if self.bias is not None:
                layer.bias.copy_(self.bias[index])
        return layer


class StackedMLP(nn.Module):
    """M perceptrons of one shape as one module whose output is ``[M, B, K]``."""

    def __init__(self, networks: Sequence[nn.Sequential]) -> None:
        super().__init__()
        columns = zip(*networks, strict=True)
        self.layers = nn.ModuleList(_stack_column(column) for column in columns)

    @staticmethod
    def accepts(networks: Sequence[nn.Module]) -> TypeGuard[Sequence[nn.Sequential]]:
        """Return True for equal architectures of linear layers and elementwise functions only.

        Stacking would drop hooks, weight normalisation, frozen weights and weights shared between
        layers, so networks with any of them are not accepted.
        """
        plain = [n for n in networks if type(n) is nn.Sequential and _is_plain(n)]
        parameters = [p for n in plain for layer in n for p in layer.parameters()]
        return (
            len(plain) == len(networks)
            and len({repr(n) for n in plain}) == 1
            and len({id(p) for p in parameters}) == len(parameters) > 0
            and all(p.requires_grad for p in parameters)
        )

    def forward(self, input: Tensor) -> Tensor:
        """Map ``input [B, ...]``, called as in ``nn.Sequential``, to logits ``[M, B, K]``."""
        x = input
        if x.dim() != 2 and not isinstance(self.layers[0], nn.Flatten):
            raise ShapeError(
                "Expected inputs [B, D], since the networks do not begin with nn.Flatten(); "
                f"got {list(x.shape)}."
            )
        for layer in self.layers:
            x = layer(x)
        return x

    def member(self, index: int) -> nn.Sequential:
        """Return network ``index`` as a plain ``nn.Sequential`` with a copy of its weights."""
        return nn.Sequential(
            *(
                layer.member(index) if isinstance(layer, StackedLinear) else copy.deepcopy(layer)
                for layer in self.layers
            )
        )


def _is_plain(network: nn.Sequential) -> bool:
    return not any(has_hooks(module) for module in network.modules()) and all(
        type(layer) in _ELEMENTWISE
        or (type(layer) is nn.Linear and _owns_weight(layer))
        or (
            type(layer) is nn.Flatten
            and position == 0
            and (layer.start_dim, layer.end_dim) == (1, -1)
        )
        for position, layer in enumerate(network)
    )


def _owns_weight(layer: nn.Linear) -> bool:
    return any(name == "weight" for name, _ in layer.named_parameters(recurse=False))


def _stack_column(column: Sequence[nn.Module]) -> nn.Module:
    if isinstance(column[0], nn.Linear):
        return StackedLinear([layer for layer in column if isinstance(layer, nn.Linear)])
    return copy.deepcopy(column[0])
