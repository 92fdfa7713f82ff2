"""From a trained network to a function-space model, in a few epochs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.data import DataLoader

from felbo.layers import Rank1Layer, StackedLinear
from felbo.models import MAP, Ensemble, StochasticClassifier
from felbo.objectives import Loss
from felbo.training.loop import MakeOptimizer, Objective, fit

Layers = Literal["all", "last"]

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, StackedLinear, Rank1Layer)


def finetune(
    network: nn.Module,
    objective: Objective,
    data: DataLoader[Any] | tuple[Tensor, Tensor],
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
        data: a ``DataLoader`` of ``(x, y)`` pairs, or the tensors ``(x [N, ...], y [N])``.
        model: makes the stochastic classifier from a plain network, for instance
            :class:`felbo.MCDropout`; a network that is one already is copied instead.
        layers: ``"all"`` trains every weight. ``"last"`` trains the last linear or convolutional
            layer (the last one that the network's constructor registers, in each member of an
            ensemble); all else is frozen, batch normalisation with its running statistics.
        epochs: passes over the data.
        batch_size: B for tensors, 128 unless given; a ``DataLoader`` has its own.
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
    if isinstance(data, tuple) and batch_size is None:
        batch_size = 128
    trained_before = {parameter: parameter.requires_grad for parameter in tuned.parameters()}
    step = _freeze_all_but_last(tuned, objective) if layers == "last" else objective
    fit(
        tuned,
        step,
        data,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        optimizer=optimizer,
        seed=seed,
        fabric=fabric,
        progress=progress,
    )
    for parameter, trainable in trained_before.items():
        parameter.requires_grad_(trainable)
    return tuned.eval()


def _freeze_all_but_last(model: StochasticClassifier, objective: Objective) -> Objective:
    """Freeze the parameters of ``model``; return an objective that also holds its statistics."""
    trainable = set(_last_parameters(model))
    for parameter in model.parameters():
        parameter.requires_grad_(parameter in trainable)
    # Training mode would update running statistics, and with them the function of frozen layers.
    norms = [part for part in model.modules() if isinstance(part, _NormBase)]

    def step(wrapped: StochasticClassifier, x: Tensor, y: Tensor) -> Loss:
        for norm in norms:
            norm.eval()
        return objective(wrapped, x, y)

    return step


def _last_parameters(model: StochasticClassifier) -> list[nn.Parameter]:
    """Parameters of the last layer, in each network that the model holds."""
    if isinstance(model, Ensemble):
        members = model.members
        roots = list(members) if isinstance(members, nn.ModuleList) else [members]
    else:
        roots = [getattr(model, "network", model)]
    found: list[nn.Parameter] = []
    for root in roots:
        name, layer = _last_layer(root)
        found += layer.parameters()
        # Location-scale models keep the scale of a layer under the layer's own name.
        rho = getattr(model, "rho", None)
        if isinstance(rho, nn.Module):
            prefix = f"{name}." if name else ""
            found += [p for key, p in rho.named_parameters() if key.startswith(prefix)]
    return found


def _last_layer(root: nn.Module) -> tuple[str, nn.Module]:
    # A rank-1 layer holds the plain layer that it shares; it counts as one.
    inner = {
        part
        for outer in root.modules()
        if isinstance(outer, Rank1Layer)
        for part in outer.modules()
        if part is not outer
    }
    named = [
        (name, part)
        for name, part in root.named_modules()
        if isinstance(part, _LAYERS) and part not in inner
    ]
    if not named:
        raise ValueError(
            f"{type(root).__name__} has no linear or convolutional layer to train as the last one; "
            "use layers='all'."
        )
    return named[-1]
