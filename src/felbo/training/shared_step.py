"""One training step of several processes, each with a part of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from felbo.errors import DivergedError, ProcessError
from felbo.inputs import Inputs
from felbo.objectives import Loss, Objective
from felbo.training.devices import Engine
from felbo.training.processes import Processes
from felbo.training.slices import Part
from felbo.training.step import Step


class SharedStep(Step):
    """Compute the gradient of the whole batch from the parts of all processes.

    The loss of a batch is the mean over its items, hence the sum of the parts' losses, each times
    its share of the items. Data-parallel strategies average gradients over processes; the loss of
    a part is multiplied by their number, so that the average is that sum.

    Args:
        engine: as in :class:`Step`.
        objective: likewise.
        check: likewise.
        clip_norm: likewise.
        closure: likewise.
        processes: that take the step together.
    """

    def __init__(
        self,
        engine: Engine,
        objective: Objective,
        check: Callable[[Inputs], None],
        clip_norm: float | None,
        closure: bool,
        processes: Processes,
    ) -> None:
        super().__init__(engine, objective, check, clip_norm, closure)
        self.processes = processes

    def _gradient(self, group: Sequence[Part], trial: bool = False) -> Tensor:  # type: ignore[override]
        """Compute the gradient of the mean loss; return ``[total, nll, kl]`` of all processes.

        Args:
            group: the own parts of the batches of this step.
            trial: True in a line search, where a loss may be infinite.
        """
        self.optimizer.zero_grad()
        items = sum(whole for *_, whole, _ in group)
        values = torch.zeros(3, dtype=torch.float64)
        for number, (x, y, whole, share) in enumerate(group, start=1):
            weight = share * whole / items
            # Only the last backward pass exchanges gradients, those of all batches of the step.
            with nullcontext() if number == len(group) else self.unsynced():
                loss, part = self._agreed(x, y, trial, weight)
                self.backward(self.processes.data_ranks * weight * loss.total)
            values = values.to(part) + part
        self._clip(values, trial)
        return values

    def _agreed(self, x: Inputs, y: Tensor, trial: bool, weight: float) -> tuple[Loss, Tensor]:
        """Return the own loss, and the sum of the terms of all processes times their weights.

        Raises:
            ProcessError: if another process has raised an error: without this exchange the others
                would wait for its gradient.
        """
        error: Exception | None = None
        try:
            loss, own = self._loss(x, y, trial)
        except Exception as found:
            # The processes that share an ensemble exchange values inside the loss. One that fails
            # there cannot tell the others; the launcher ends them, or their timeout.
            if self.processes.sharded and not isinstance(found, DivergedError):
                raise
            error, own = found, y.new_zeros(3, dtype=torch.float64)
        failed = own.new_tensor([float(error is not None)], dtype=torch.float64)
        counted = weight * own.double() if weight else torch.zeros_like(own, dtype=torch.float64)
        sums = self.processes.sum(torch.cat([counted, failed]))
        if error is not None:
            raise error
        if sums[3] > 0:
            raise ProcessError(
                "Another process of this training has raised an error, and this one stops with it: "
                "see the message of that one."
            )
        return loss, sums[:3]
