"""Device and Fabric strategy of a training."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.optim import Optimizer

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@cache
def best_device() -> Fabric:
    """Return a Fabric of the best single device."""
    # Imported lazily: it takes longer to load than all of felbo. Cached, since creating a Fabric
    # searches all installed packages for extensions.
    from lightning_fabric import Fabric

    return Fabric(accelerator="auto", devices=1)


def set_up(
    fabric: Fabric, model: nn.Module, optimizer: Optimizer
) -> tuple[Any, Any, Callable[[Tensor], None]]:
    """Return the model, the optimiser and the backward function, wrapped by the strategy."""
    from lightning_fabric.plugins.precision import Precision
    from lightning_fabric.strategies.single_device import SingleDeviceStrategy

    strategy = fabric.strategy
    if type(strategy) is SingleDeviceStrategy and type(strategy.precision) is Precision:
        # On one device in full precision the wrappers change nothing, but cost more than a small
        # network's forward pass.
        return fabric.to_device(model), optimizer, Tensor.backward
    return (*fabric.setup(model, optimizer), fabric.backward)
