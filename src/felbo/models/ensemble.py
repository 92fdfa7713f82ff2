"""Deep ensemble: each draw is one of M independently initialised networks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from felbo._numbers import whole_number
from felbo.errors import InputTypeError, SettingError
from felbo.inputs import Inputs, batch_size, call, check_logits
from felbo.layers import StackedMLP, recomputed
from felbo.models._conversion import last_layer
from felbo.models._wrapping import check_network, own_copy
from felbo.models.base import StochasticClassifier


class Ensemble(StochasticClassifier):
    """M networks of one architecture; draw m is member m.

    Perceptrons (``nn.Sequential`` of linear layers and elementwise functions) run as one batched
    computation; other networks run one after another.

    Args:
        factory: builds one freshly initialised network per call.
        members: M.
        low_memory: activation checkpointing per member: the backward pass recomputes activations
            one member at a time. Takes about the memory of one network, for one or two additional
            forward passes.

    Example:
        >>> import torch, felbo
        >>> model = felbo.Ensemble(lambda: felbo.networks.mlp(2, (25, 25), 3), members=5)
        >>> model(torch.zeros(4, 2)).shape
        torch.Size([5, 4, 3])
        >>> model.member(0)(torch.zeros(4, 2)).shape
        torch.Size([4, 3])
    """

    reason_for_equal_draws = "Its members have the same weights."

    def __init__(
        self, factory: Callable[[], nn.Module], members: int = 5, *, low_memory: bool = False
    ) -> None:
        super().__init__()
        members = whole_number("members", members)
        _check_factory(factory)
        networks = [factory() for _ in range(members)]
        for network in networks:
            check_network(network)
        if len({id(network) for network in networks}) < members:
            raise SettingError(
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
        self._take_mode_of(*networks)

    @classmethod
    def from_networks(cls, networks: Sequence[nn.Module]) -> Ensemble:
        """Build an ensemble from copies of existing networks, trained or not."""
        if not networks:
            raise SettingError("An ensemble needs at least 1 network, got none.")
        copies = iter([own_copy(network) for network in networks])
        return cls(lambda: next(copies), members=len(networks))

    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return the members' logits ``[M, B, K]``; ``num_samples`` may only be M."""
        if self.resolve_samples(num_samples) != self.training_samples:
            raise SettingError(
                f"This ensemble has {self.training_samples} members and gives exactly that many "
                f"draws, got num_samples={num_samples}."
            )
        if isinstance(self.members, StackedMLP):
            logits = call(self.members, x)
            check_logits(logits.shape[1:], batch_size(x))
            return self.checked(logits)
        frugal = self.low_memory and torch.is_grad_enabled()
        calls = [partial(recomputed, member) if frugal else member for member in self.members]
        return self.checked(torch.stack([self.run_network(member, x) for member in calls]))

    @property
    def is_random(self) -> bool:
        """True if there is more than one member."""
        return self.training_samples > 1

    def last_layer_parameters(self) -> list[nn.Parameter]:
        """Parameters of each member's last linear or convolutional layer."""
        members = self.members
        roots = list(members) if isinstance(members, nn.ModuleList) else [members]
        return [parameter for root in roots for parameter in last_layer(root)[1].parameters()]

    def settings(self) -> dict[str, Any]:
        """Return the number of members, and whether they are stored as stacked weights."""
        return {
            "members": self.training_samples,
            "stacked": isinstance(self.members, StackedMLP),
        }

    def member(self, index: int) -> nn.Module:
        """Return a copy of member ``index`` as a plain network."""
        if not 0 <= index < self.training_samples:
            raise IndexError(f"Members are numbered 0 to {self.training_samples - 1}, got {index}.")
        if isinstance(self.members, StackedMLP):
            return self.members.member(index)
        return copy.deepcopy(self.members[index])


def _check_factory(factory: Any) -> None:
    networks = "felbo.Ensemble.from_networks([network, ...])"
    if isinstance(factory, nn.Module):
        raise InputTypeError(
            "Ensemble takes a function that builds a freshly initialised network, got the network "
            f"{type(factory).__name__} itself; all members would have the same weights. Pass e.g. "
            f"lambda: my_net(); for networks that were trained separately, use {networks}."
        )
    if not callable(factory):
        raise InputTypeError(
            f"Ensemble takes a function that builds a network, got {type(factory).__name__}; for "
            f"existing networks, use {networks}."
        )
