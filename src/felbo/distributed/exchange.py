"""Sums and concatenations over processes, with the gradients that belong to them.

Every process computes the same loss from the exchanged values. The gradient of that one loss with
respect to a process's own summand is then the gradient with respect to the sum, and no gradient has
to be sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

Group = dist.ProcessGroup | None


def summed(values: Sequence[Tensor], group: Group) -> list[Tensor]:
    """Sum tensors over the processes of a group, all of them in one message of float64.

    Args:
        values: of the same shapes on every process.
        group: ``None`` is this process alone.

    Returns:
        The sums in float64, the same on every process. Their gradients are those of a loss that
        every process computes in the same way.
    """
    flat = torch.cat([value.double().reshape(-1) for value in values])
    total: Tensor = _Sum.apply(flat, group)  # type: ignore[no-untyped-call]
    parts = torch.split(total, [value.numel() for value in values])
    return [part.view(value.shape) for part, value in zip(parts, values, strict=True)]


def gathered(own: Tensor, sizes: Sequence[int], rank: int, group: Group) -> Tensor:
    """Concatenate tensors of all processes along the first axis, in the order of their ranks.

    Args:
        own: ``[sizes[rank], ...]``; the gradient of the result goes to this part only.
        sizes: length of each process's part.
        rank: of this process in the group.
        group: ``None`` is this process alone.
    """
    if group is None:
        return own
    largest = max(sizes)
    padded = own.new_zeros(largest, *own.shape[1:])
    padded[: len(own)] = own.detach()
    found = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(found, padded, group=group)
    parts = [part[:size] for part, size in zip(found, sizes, strict=True)]
    parts[rank] = own
    return torch.cat(parts)


def with_summed_gradient(x: Tensor, group: Group) -> Tensor:
    """Return ``x``; its gradient is the sum of those of all processes.

    For inputs, which all members of an ensemble read: each process knows the gradient of its own
    members only.
    """
    if group is None or not x.requires_grad:
        return x
    result: Tensor = _SummedGradient.apply(x, group)  # type: ignore[no-untyped-call]
    return result


class _Sum(torch.autograd.Function):
    """Sum over processes; the gradient of the sum is that of each summand."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, group: Group) -> Tensor:
        total = value.clone()
        if group is not None:
            dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class _SummedGradient(torch.autograd.Function):
    """Identity, with a gradient that is summed over processes."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        total = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return total, None
