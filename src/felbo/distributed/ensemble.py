"""Ensemble whose members are divided among processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from felbo.distributed.exchange import gathered, summed, with_summed_gradient
from felbo.distributed.grid import Grid, own_part
from felbo.errors import DataError, SettingError
from felbo.inputs import Inputs, map_tensors, tensors
from felbo.models import Ensemble, StochasticClassifier
from felbo.random import RandomStream


class ShardedEnsemble(StochasticClassifier):
    """An ensemble of which every process of a grid's row holds some members.

    The forward pass runs the own members and gathers the draws of the others, so that predictions,
    evaluations and any objective give what :class:`felbo.Ensemble` gives in one process, on every
    process. All of them have to make the call, with the same inputs.

    :class:`felbo.FunctionSpaceELBO` sends less. With the fitted concentration held constant, the
    other members enter the gradient of the own ones through two means over all draws, of f and of
    log f: 2 · S · K numbers for S points, however many members there are.

    Args:
        factory: as in :class:`felbo.Ensemble`. Every process calls it for every member and keeps
            its own: with the same seed, the members are those of one process.
        members: M, over all processes; at least one for each process of a row.
        grid: arrangement of the processes; its rows divide the members.
        low_memory: as in :class:`felbo.Ensemble`.

    Attributes:
        own: the members of this process.
        grid: arrangement of the processes.

    Example:
        Started in two processes, each of these holds ten members::

            model = felbo.distributed.ShardedEnsemble(make_network, 20, felbo.distributed.Grid())
            felbo.fit(model, objective, (x, y), epochs=10, fabric=fabric)
            whole = model.gather()  # an ordinary felbo.Ensemble, on every process
    """

    def __init__(
        self,
        factory: Callable[[], nn.Module],
        members: int,
        grid: Grid,
        *,
        low_memory: bool = False,
    ) -> None:
        super().__init__()
        if members < grid.member_ranks:
            raise SettingError(
                f"There are {members} members for {grid.member_ranks} processes, and each needs "
                "one: use more members, or a Grid with fewer member_ranks."
            )
        own = _own_networks(
            factory, own_part(members, grid.member_rank, grid.member_ranks), members
        )
        self.own = Ensemble(iter(own).__next__, len(own), low_memory=low_memory)
        self.grid = grid
        self.training_samples = self.evaluation_samples = members
        self._only_own = False
        # Networks may draw, for instance in dropout layers. A process draws for its own members
        # from its own stream: torch's generators go on as in the other processes of the row, which
        # must make the same points from the same batches.
        rank = 1 + grid.data_rank * grid.member_ranks + grid.member_rank
        self._stream = RandomStream((torch.initial_seed() + rank) % 2**63)
        self._take_mode_of(self.own)

    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return the logits of all members ``[M, B, K]``; ``num_samples`` may only be M.

        The gradient goes to the own members, and to inputs that require one.
        """
        if self.resolve_samples(num_samples) != self.training_samples:
            raise SettingError(
                f"This ensemble has {self.training_samples} members and gives exactly that many "
                f"draws, got num_samples={num_samples}."
            )
        if self._only_own:
            return self._draw(x)
        group, rank = self.grid.member_group, self.grid.member_rank
        x = map_tensors(lambda part: with_summed_gradient(part, group), x)
        return gathered(self._draw(x), self.sizes, rank, group)

    @contextmanager
    def own_draws(self) -> Iterator[None]:
        """Context manager: the forward pass returns the own members' logits and sends nothing."""
        self._only_own = True
        try:
            yield
        finally:
            self._only_own = False

    def average(self, own: Sequence[Tensor], inputs: Inputs) -> list[Tensor]:
        """Turn means over the own draws into means over all draws, in one message.

        Args:
            own: means over the draws of this process, of the same shapes on every process.
            inputs: of the draws; they have to be the same on every process of the row.

        Returns:
            The means in float64, with gradients for the own members.

        Raises:
            DataError: if the processes have different inputs.
        """
        share = self.sizes[self.grid.member_rank] / self.training_samples
        mark = _checksum(inputs)
        marks = mark.new_zeros(self.grid.member_ranks)
        marks[self.grid.member_rank] = mark
        *means, found = summed([*(share * value for value in own), marks], self.grid.member_group)
        # Machines may round sums differently.
        if float((found.detach() - mark).abs().max()) > 1e-9 * float(mark):
            raise DataError(
                "The processes that share the members of an ensemble must have the same inputs and "
                "points, and theirs differ. Seed all processes alike, with the generators of "
                "augmentations and measurement sets."
            )
        return means

    def gather(self) -> Ensemble:
        """Return all members as an ordinary ensemble, on every process.

        A collective call. The networks need to be of one architecture and fit into the memory of
        one process; to save them, let one process call :func:`felbo.save`.
        """
        networks = []
        for owner, size in enumerate(self.sizes):
            for index in range(size):
                mine = owner == self.grid.member_rank
                network = self.own.member(index if mine else 0)
                self._broadcast(network, owner)
                networks.append(network)
        whole = Ensemble(iter(networks).__next__, len(networks), low_memory=self.own.low_memory)
        whole.num_data = self.num_data
        return whole

    @property
    def sizes(self) -> list[int]:
        """Number of members of each process in the row."""
        members, ranks = self.training_samples, self.grid.member_ranks
        parts = [own_part(members, rank, ranks) for rank in range(ranks)]
        return [own.stop - own.start for own in parts]

    @property
    def is_random(self) -> bool:
        """True if there is more than one member."""
        return self.training_samples > 1

    def last_layer_parameters(self) -> list[nn.Parameter]:
        """Parameters of the last layer of each of the own members."""
        return self.own.last_layer_parameters()

    def settings(self) -> dict[str, Any]:
        """Return the number of members, and which of them this process holds."""
        own = own_part(self.training_samples, self.grid.member_rank, self.grid.member_ranks)
        return {"members": self.training_samples, "own": [own.start, own.stop]}

    def _draw(self, x: Inputs) -> Tensor:
        with self._stream.block():
            return self.own(x)  # type: ignore[no-any-return]

    @torch.no_grad()
    def _broadcast(self, network: nn.Module, owner: int) -> None:
        """Give ``network`` the weights that it has on the process of member rank ``owner``."""
        group = self.grid.member_group
        if group is None:
            return
        source = self.grid.data_rank * self.grid.member_ranks + owner
        values = [*network.parameters(), *network.buffers()]
        shapes = [(tuple(value.shape), str(value.dtype)) for value in values]
        theirs = [shapes]
        dist.broadcast_object_list(theirs, source, group=group)
        if theirs[0] != shapes:
            raise SettingError(
                "gather needs members of one architecture, and those of this ensemble differ. Save "
                "the members of each process: felbo.save(model.own, path)."
            )
        for value in values:
            dist.broadcast(value, source, group=group)


def _own_networks(factory: Callable[[], nn.Module], own: slice, members: int) -> list[nn.Module]:
    """Build all networks and keep the own ones, so that each is that of one process."""
    if isinstance(factory, nn.Module) or not callable(factory):
        Ensemble(factory)  # raises, and says why
    networks = []
    for index in range(members):
        network = factory()
        if own.start <= index < own.stop:
            networks.append(network)
    return networks


def _checksum(x: Inputs) -> Tensor:
    """Return a number ≥ 0 that differs, but for rounding, if values or their order do."""
    total = torch.zeros((), dtype=torch.float64)
    for part in tensors(x):
        rows = part.detach().float().abs().reshape(len(part), -1).sum(1, dtype=torch.float64)
        order = torch.arange(1, len(part) + 1, dtype=torch.float64, device=part.device)
        total = total.to(part.device) + rows @ order
    return total.nan_to_num()
