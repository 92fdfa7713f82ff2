"""The processes of a training: who takes which items, and what all of them agree on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from felbo.distributed import ShardedEnsemble
from felbo.distributed.exchange import Group
from felbo.distributed.grid import own_part
from felbo.errors import SettingError
from felbo.models import StochasticClassifier

if TYPE_CHECKING:
    from lightning_fabric import Fabric

T = TypeVar("T")


class Processes:
    """The processes of a training.

    Args:
        fabric: knows them all.
        model: the model to train; the processes that share the members of an ensemble take the same
            items.

    Attributes:
        count: number of processes.
        rank: number of this one.
        data_rank: which part of every batch this process takes.
        data_ranks: number of parts.
    """

    def __init__(self, fabric: Fabric, model: StochasticClassifier) -> None:
        self.fabric = fabric
        self.count, self.rank = fabric.world_size, fabric.global_rank
        self.data_rank, self.data_ranks = self.rank, self.count
        self.column: Group = None
        self.sharded = isinstance(model, ShardedEnsemble)
        if isinstance(model, ShardedEnsemble):
            self.data_rank, self.data_ranks = model.grid.data_rank, model.grid.data_ranks
            self.column = model.grid.data_group
            if model.grid.size != self.count:
                raise SettingError(
                    f"The ensemble is divided in a {model.grid}, but the Fabric of this training "
                    f"has {self.count} processes: pass fabric=, the one that launched them."
                )

    def share(self, items: int) -> tuple[slice, float]:
        """Return which of a batch's items this process takes, and their share of the batch.

        A process that would get none takes all of them, with the share 0: it has to take part in
        the exchange of gradients.
        """
        own = own_part(items, self.data_rank, self.data_ranks)
        if own.start == own.stop:
            return slice(0, items), 0.0
        return own, (own.stop - own.start) / items

    def smallest(self, items: int) -> int:
        """Return the number of items that a process takes of a batch, at least."""
        return max(1, items // self.data_ranks)

    def from_first(self, value: T) -> T:
        """Return the value of the first process."""
        return value if self.count == 1 else self.fabric.broadcast(value)

    def seed(self, given: int | None, model: StochasticClassifier) -> int | None:
        """Return the seed of this process's random numbers.

        Random weights are the same on every process, as in one: a draw is one function. Other
        numbers, such as dropout masks, are drawn for each item, and differ between processes that
        see different items.
        """
        if self.count == 1:
            return given
        common = self.from_first(int(torch.randint(2**31, ())) if given is None else given)
        return common if model.draws_weights else common + self.data_rank

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over the parts of the batch, the same on every process."""
        if self.count == 1:
            return values
        found = values.clone()
        dist.all_reduce(found)  # that of Fabric waits for all processes twice
        copies = self.count // self.data_ranks  # processes with the same items
        return found / copies

    def any(self, *flags: bool) -> list[bool]:
        """Return for each flag whether it is True in some process."""
        given = torch.tensor(flags, dtype=torch.float64, device=self.fabric.device)
        return [count > 0 for count in self.sum(given).tolist()]

    def gathered(self, value: T) -> list[T]:
        """Return the values of all processes."""
        found: list[Any] = [None] * self.count
        dist.all_gather_object(found, value)
        return found

    @torch.no_grad()
    def share_buffers(self, model: StochasticClassifier) -> None:
        """Give the buffers of the first data rank to the others, such as running statistics."""
        if self.data_ranks == 1:
            return
        first = dist.get_global_rank(self.column, 0) if self.column is not None else 0
        for buffer in model.buffers():
            dist.broadcast(buffer, first, group=self.column)
