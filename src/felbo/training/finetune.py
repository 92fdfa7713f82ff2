"""From a trained network to a function-space model, in a few epochs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from torch import nn
from torch.utils.data import DataLoader

from felbo.models import MAP, StochasticClassifier
from felbo.objectives import LossFunction, Objective
from felbo.training.loop import MakeOptimizer, fit
from felbo.training.sources import Data

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Layers = Literal["all", "last"]


def finetune(
    network: nn.Module,
    objective: Objective | LossFunction,
    data: Data,
    *,
    model: Callable[[nn.Module], StochasticClassifier] = MAP,
    layers: Layers = "all",
    epochs: int = 5,
    batch_size: int | None = None,
    learning_rate: float = 1e-4,
    optimizer: MakeOptimizer | None = None,
    seed: int | None = None,
    fabric: Fabric | None = None,
    progress: bool = True,
) -> StochasticClassifier:
    """Give a trained network a prior over its predictions, starting from what it has learnt.

    Args:
        network: a trained network that maps ``[B, ...]`` to logits ``[B, K]``, or a stochastic
            classifier such as ``Ensemble.from_networks(networks)``. It stays as it is.
        objective: usually :class:`felbo.FunctionSpaceELBO`.
        data: what :func:`felbo.fit` takes.
        model: makes the stochastic classifier from a plain network, for instance
            :class:`felbo.MCDropout`; a network that is one already is copied instead.
        layers: ``"all"`` trains every weight. ``"last"`` trains the last linear or convolutional
            layer (the last one that the network's constructor registers, in each member of an
            ensemble); all else is frozen, batch normalisation with its running statistics.
        epochs: passes over the data.
        batch_size: B for tensors and a ``Dataset``, 128 unless given; a ``DataLoader`` has its own.
        learning_rate: of the default optimiser, Adam.
        optimizer: makes another optimiser from the parameters.
        seed: of the shuffle (tensors only).
        fabric: device, precision and strategy; ``None`` takes the best single device.
        progress: show a progress bar.

    Returns:
        The new model, in evaluation mode.

    Example:
        >>> import torch, felbo
        >>> x, y = torch.randn(64, 2), torch.arange(64) % 2
        >>> trained = felbo.networks.mlp(2, (8,), 2)
        >>> objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(2), num_data=64)
        >>> model = felbo.finetune(trained, objective, (x, y), layers="last", progress=False)
        >>> type(model).__name__
        'MAP'
    """
    if layers not in ("all", "last"):
        raise ValueError(f"layers must be 'all' or 'last', got {layers!r}.")
    if not isinstance(network, nn.Module):
        raise TypeError(
            f"finetune starts from a network (nn.Module), got {type(network).__name__}; for a list "
            "of networks pass felbo.Ensemble.from_networks(networks)."
        )
    tuned = copy.deepcopy(network) if isinstance(network, StochasticClassifier) else model(network)
    if not isinstance(data, DataLoader) and batch_size is None:
        batch_size = 128
    trained_before = {parameter: parameter.requires_grad for parameter in tuned.parameters()}
    if layers == "last":
        last = set(tuned.last_layer_parameters())
        for parameter in tuned.parameters():
            parameter.requires_grad_(parameter in last)
    fit(
        tuned,
        objective,
        data,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        optimizer=optimizer,
        seed=seed,
        # New running statistics would change the function of frozen layers.
        frozen_norms=layers == "last",
        fabric=fabric,
        progress=progress,
    )
    for parameter, trainable in trained_before.items():
        parameter.requires_grad_(trainable)
    return tuned.eval()
