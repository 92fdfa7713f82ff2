"""Put models into training or evaluation mode for a while; every module gets its own mode back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn

NORMALISATION: tuple[type[nn.Module], ...] = (
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
    nn.SyncBatchNorm,
    nn.InstanceNorm1d,
    nn.InstanceNorm2d,
    nn.InstanceNorm3d,
)


@contextmanager
def training_mode(model: nn.Module, *, frozen_norms: bool = False) -> Iterator[None]:
    """Train inside the block; afterwards every module is in the mode in which it came.

    A module in evaluation mode inside a model in training mode was frozen on purpose, such as a
    batch normalisation after ``bn.eval()``, and stays so. A model that comes in evaluation mode as
    a whole says nothing about its parts: all of them train.

    Args:
        model: what is trained.
        frozen_norms: keep all batch and instance normalisation in evaluation mode, so that running
            statistics are used and not updated.

    Example:
        >>> import felbo
        >>> network = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
        >>> network[1] = network[1].eval()
        >>> model = felbo.MAP(network)
        >>> with training_mode(model):
        ...     model.network[0].training, model.network[1].training
        (True, False)
    """
    with _modes_kept([model]):
        if not model.training:
            model.train()
        if frozen_norms:
            for part in model.modules():
                if isinstance(part, NORMALISATION):
                    part.eval()
        yield


@contextmanager
def evaluation_mode(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Evaluate inside the block; afterwards every module is in the mode in which it came."""
    with _modes_kept(modules):
        for module in modules:
            module.eval()
        yield


@contextmanager
def _modes_kept(modules: Sequence[nn.Module]) -> Iterator[None]:
    modes = [(part, part.training) for module in modules for part in module.modules()]
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
