"""Device and Fabric strategy of a training."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn
from torch.optim import Optimizer

from felbo.errors import DivergedError

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Engine(NamedTuple):
    """A model and an optimiser on their device.

    Attributes:
        model: in the wrapper of the strategy, if there is one.
        optimizer: likewise.
        backward: computes gradients of a loss.
        clip: scales the gradients to a norm of at most its argument.
    """

    model: Any
    optimizer: Any
    backward: Callable[[Tensor], None]
    clip: Callable[[float], None]


@cache
def best_device() -> Fabric:
    """Return a Fabric of the best single device."""
    # Imported lazily: it takes longer to load than all of felbo. Cached, since creating a Fabric
    # searches all installed packages for extensions.
    from lightning_fabric import Fabric

    return Fabric(accelerator="auto", devices=1)


def set_up(fabric: Fabric, model: nn.Module, optimizer: Optimizer) -> Engine:
    """Move a model to its device, and wrap it and its optimiser as the strategy needs."""
    from lightning_fabric.plugins.precision import Precision
    from lightning_fabric.strategies.single_device import SingleDeviceStrategy

    strategy = fabric.strategy
    if type(strategy) is SingleDeviceStrategy and type(strategy.precision) is Precision:
        # On one device in full precision the wrappers change nothing, but cost more than a small
        # network's forward pass.
        clip = partial(clip_gradients, model)
        return Engine(fabric.to_device(model), optimizer, Tensor.backward, clip)
    wrapped, wrapped_optimizer = fabric.setup(model, optimizer)

    def clip_scaled(norm: float) -> None:
        # In half precision infinite gradients are expected: the scaler skips such steps.
        fabric.clip_gradients(wrapped, wrapped_optimizer, max_norm=norm, error_if_nonfinite=False)

    return Engine(wrapped, wrapped_optimizer, fabric.backward, clip_scaled)


def clip_gradients(model: nn.Module, norm: float) -> None:
    """Scale the gradients of all parameters to a joint L2 norm of at most ``norm``.

    Raises:
        DivergedError: if the gradients are not finite.
    """
    found = float(nn.utils.clip_grad_norm_(model.parameters(), norm))
    if not math.isfinite(found):
        raise DivergedError(
            f"The gradient's norm became {found}, with a finite loss. The step was not taken; try "
            "a smaller learning rate.",
            "gradient",
        )
