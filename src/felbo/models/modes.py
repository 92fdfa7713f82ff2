"""Context managers for training and evaluation mode that restore every module's mode."""

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
    """Context manager: training mode inside the block, every module's own mode restored after it.

    A module in evaluation mode inside a model in training mode is taken as frozen on purpose, such
    as a batch normalisation after ``bn.eval()``, and stays so. If the model itself is in evaluation
    mode, all of its modules are put into training mode.

    Args:
        model: the model to train.
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
    """Context manager: evaluation mode inside the block, every module's mode restored after it."""
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
