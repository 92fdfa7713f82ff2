"""Grid of processes: one axis divides the batches, the other the members of an ensemble."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Self

import torch.distributed as dist

from felbo.errors import SettingError

# How long a process waits for the others before it raises; torch's own default for gloo.
TIMEOUT = timedelta(minutes=30)


class Grid:
    """Processes arranged as ``data_ranks × member_ranks``.

    Process r has the data rank ``r // member_ranks`` and the member rank ``r % member_ranks``. The
    processes of a row see the same items and hold different members; those of a column hold the
    same members and see different items. Neighbouring processes, which most launchers put on one
    machine, share a row: its exchange is small but every step waits for it.

    The constructor is a collective call: every process of the world makes it, with the same
    arguments.

    Args:
        member_ranks: processes among which the members are divided; ``None`` is all of them. It
            must divide their number.
        timeout: how long a process waits for the others of its row or column before it raises.

    Attributes:
        data_rank: row of this process.
        data_ranks: number of rows.
        member_rank: column of this process.
        member_ranks: number of columns.
        data_group: the processes of its column, ``None`` if it is alone there.
        member_group: the processes of its row, ``None`` if it is alone there.
    """

    def __init__(self, member_ranks: int | None = None, timeout: timedelta = TIMEOUT) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise SettingError(
                "A Grid needs running processes: call fabric.launch() first, or "
                "torch.distributed.init_process_group(), and start the script with torchrun."
            )
        world, rank = dist.get_world_size(), dist.get_rank()
        self.member_ranks = world if member_ranks is None else member_ranks
        if self.member_ranks < 1 or world % self.member_ranks:
            raise SettingError(
                f"member_ranks must divide the number of processes, {world}; got {member_ranks}."
            )
        self.data_ranks = world // self.member_ranks
        self.data_rank, self.member_rank = divmod(rank, self.member_ranks)
        # Every process has to take part in making every group, also those of others.
        rows = [
            [row * self.member_ranks + column for column in range(self.member_ranks)]
            for row in range(self.data_ranks)
        ]
        columns = [list(column) for column in zip(*rows, strict=True)]
        self.member_group = [_group(row, timeout) for row in rows][self.data_rank]
        self.data_group = [_group(column, timeout) for column in columns][self.member_rank]

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.data_ranks * self.member_ranks

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: a copy of a model uses the same processes."""
        return self

    def __repr__(self) -> str:
        """Show the arrangement, and where this process is."""
        return (
            f"Grid({self.data_ranks} × {self.member_ranks}, here "
            f"[{self.data_rank}, {self.member_rank}])"
        )


def own_part(items: int, rank: int, ranks: int) -> slice:
    """Return which of ``items`` belong to a rank; the parts differ by at most one item.

    Example:
        >>> [list(range(5)[own_part(5, rank, 3)]) for rank in range(3)]
        [[0], [1, 2], [3, 4]]
    """
    return slice(rank * items // ranks, (rank + 1) * items // ranks)


def _group(ranks: list[int], timeout: timedelta) -> dist.ProcessGroup | None:
    if len(ranks) == 1:
        return None
    group: dist.ProcessGroup = dist.new_group(ranks, timeout=timeout)
    return group
