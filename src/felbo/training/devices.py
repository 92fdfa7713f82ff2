"""Device and Fabric strategy of a training."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from felbo.distributed import ShardedEnsemble
from felbo.distributed.exchange import summed
from felbo.errors import DivergedError, SettingError

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Engine(NamedTuple):
    """A model and an optimiser on their device.

    Attributes:
        model: in the wrapper of the strategy, if there is one.
        optimizer: likewise.
        backward: computes gradients of a loss.
        clip: scales the gradients to a norm of at most its argument.
        unsynced: context in which gradients are not exchanged between processes yet.
    """

    model: Any
    optimizer: Any
    backward: Callable[[Tensor], None]
    clip: Callable[[float], None]
    unsynced: Callable[[], AbstractContextManager[Any]] = nullcontext


@cache
def best_device(precision: Any = "32-true") -> Fabric:
    """Return a Fabric of the best single device.

    Args:
        precision: of the computation, as Fabric names it, such as ``"bf16-mixed"``.
    """
    # Imported lazily: it takes longer to load than all of felbo. Cached, since creating a Fabric
    # searches all installed packages for extensions.
    from lightning_fabric import Fabric

    return Fabric(accelerator="auto", devices=1, precision=precision)


def set_up(fabric: Fabric, model: nn.Module, optimizer: Optimizer) -> Engine:
    """Move a model to its device, and wrap it and its optimiser as the strategy needs."""
    from lightning_fabric.plugins.precision import Precision
    from lightning_fabric.strategies.single_device import SingleDeviceStrategy

    strategy = fabric.strategy
    if isinstance(model, ShardedEnsemble):
        return set_up_sharded(fabric, model, optimizer)
    if any(isinstance(part, ShardedEnsemble) for part in model.modules()):
        raise SettingError(
            f"A ShardedEnsemble inside a {type(model).__name__} cannot be trained: pass the "
            "ensemble itself."
        )
    if type(strategy) is SingleDeviceStrategy and type(strategy.precision) is Precision:
        # On one device in full precision the wrappers change nothing, but cost more than a small
        # network's forward pass.
        clip = partial(clip_gradients, optimizer)
        return Engine(fabric.to_device(model), optimizer, Tensor.backward, clip)
    wrapped, wrapped_optimizer = fabric.setup(model, optimizer)

    def clip_scaled(norm: float) -> None:
        # In half precision infinite gradients are expected: the scaler skips such steps.
        fabric.clip_gradients(wrapped, wrapped_optimizer, max_norm=norm, error_if_nonfinite=False)

    unsynced = partial(fabric.no_backward_sync, wrapped)
    several = fabric.world_size > 1
    return Engine(
        wrapped,
        wrapped_optimizer,
        fabric.backward,
        clip_scaled,
        unsynced if several else nullcontext,
    )


def set_up_sharded(fabric: Fabric, model: ShardedEnsemble, optimizer: Optimizer) -> Engine:
    """Set up an ensemble whose members are divided among processes.

    Fabric's strategies take the same parameters on every process. Here only the processes of a
    column have the same, and average their gradients.
    """
    from lightning_fabric.plugins.precision import Precision

    if type(fabric.strategy.precision) is not Precision:
        raise SettingError(
            "A ShardedEnsemble trains in full precision; pass a Fabric without precision=."
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise SettingError(
            "LBFGS needs the gradients of all members on one process: use another optimiser for a "
            "ShardedEnsemble."
        )
    fabric.to_device(model)
    clip = partial(clip_over_members, model, optimizer)
    if model.grid.data_group is None:
        return Engine(model, optimizer, Tensor.backward, clip)
    devices = None if fabric.device.type == "cpu" else [fabric.device]
    wrapped = nn.parallel.DistributedDataParallel(
        model, device_ids=devices, process_group=model.grid.data_group
    )
    return Engine(wrapped, optimizer, Tensor.backward, clip, wrapped.no_sync)


def clip_gradients(optimizer: Optimizer, norm: float) -> None:
    """Scale the gradients of an optimiser's parameters to a joint L2 norm of at most ``norm``.

    Raises:
        DivergedError: if the gradients are not finite.
    """
    _check_norm(float(nn.utils.clip_grad_norm_(_parameters(optimizer), norm)))


def clip_over_members(model: ShardedEnsemble, optimizer: Optimizer, norm: float) -> None:
    """Scale gradients to a joint norm of at most ``norm`` over the members of all processes.

    Raises:
        DivergedError: if the gradients are not finite, on every process.
    """
    parameters = [p for p in _parameters(optimizer) if p.grad is not None]
    own = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    (squares,) = summed([own.square()], model.grid.member_group)
    found = squares.sqrt().to(own)
    nn.utils.clip_grads_with_norm_(parameters, norm, found)
    _check_norm(float(found))


def _parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    # Those of the model may be more, and the gradients of the others are not set to zero.
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _check_norm(found: float) -> None:
    if not math.isfinite(found):
        raise DivergedError(
            f"The gradient's norm became {found}, with a finite loss. The step was not taken; try "
            "a smaller learning rate.",
            "gradient",
        )
