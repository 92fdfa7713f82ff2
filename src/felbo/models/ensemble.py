"""Deep ensemble: each draw is one of M separately initialised networks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from felbo.layers import StackedMLP, recomputed
from felbo.models.base import StochasticClassifier


class Ensemble(StochasticClassifier):
    """M networks of one architecture; draw m is member m.

    Perceptrons (``nn.Sequential`` of linear layers and elementwise functions) run as one batched
    computation; other networks run one after another.

    Args:
        factory: makes one freshly initialised network per call.
        members: M.
        low_memory: hold the activations of one member at a time in training and compute them again
            in the backward pass: about the memory of one network, for one or two forward passes
            more.

    Example:
        >>> import torch, felbo
        >>> model = felbo.Ensemble(lambda: felbo.networks.mlp(2, (25, 25), 3), members=5)
        >>> model(torch.zeros(4, 2)).shape
        torch.Size([5, 4, 3])
        >>> model.member(0)(torch.zeros(4, 2)).shape
        torch.Size([4, 3])
    """

    def __init__(
        self, factory: Callable[[], nn.Module], members: int = 5, *, low_memory: bool = False
    ) -> None:
        super().__init__()
        if members < 1:
            raise ValueError(f"An ensemble needs at least 1 member, got {members}.")
        networks = [factory() for _ in range(members)]
        if len({id(network) for network in networks}) < members:
            raise ValueError(
                "The factory returned the same network twice; its members would share their "
                "weights. Pass a function that builds a new network, e.g. lambda: my_net()."
            )
        self.training_samples = self.evaluation_samples = members
        self.low_memory = low_memory
        self.members: StackedMLP | nn.ModuleList = (
            StackedMLP(networks)
            if not low_memory and StackedMLP.accepts(networks)
            else nn.ModuleList(networks)
        )

    @classmethod
    def from_networks(cls, networks: Sequence[nn.Module]) -> Ensemble:
        """Make an ensemble of copies of networks that exist already, trained or not."""
        if not networks:
            raise ValueError("An ensemble needs at least 1 network, got none.")
        copies = iter([copy.deepcopy(network) for network in networks])
        return cls(lambda: next(copies), members=len(networks))

    def forward(self, x: Tensor, num_samples: int | None = None) -> Tensor:
        """Return the members' logits ``[M, B, K]``; ``num_samples`` may only be M."""
        if self.resolve_samples(num_samples) != self.training_samples:
            raise ValueError(
                f"This ensemble has {self.training_samples} members and gives exactly that many "
                f"draws, got num_samples={num_samples}."
            )
        if isinstance(self.members, StackedMLP):
            logits: Tensor = self.members(x)
            return logits
        run = recomputed if self.low_memory and torch.is_grad_enabled() else nn.Module.__call__
        return torch.stack([run(member, x) for member in self.members])

    def member(self, index: int) -> nn.Module:
        """Return a copy of member ``index`` as a plain network."""
        if not 0 <= index < self.training_samples:
            raise IndexError(f"Members are numbered 0 to {self.training_samples - 1}, got {index}.")
        if isinstance(self.members, StackedMLP):
            return self.members.member(index)
        return copy.deepcopy(self.members[index])
