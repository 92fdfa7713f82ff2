"""Fine-tune a trained network with a prior over its predictions, in a few hundred steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

from felbo._numbers import whole_number
from felbo.errors import InputTypeError, SettingError
from felbo.inputs import Inputs, as_inputs, batch_size, map_tensors, split_labels
from felbo.models import MAP, StochasticClassifier
from felbo.models.copying import deep_copy
from felbo.models.modes import evaluation_mode
from felbo.objectives import FunctionSpaceELBO, LossFunction, Objective
from felbo.priors import UniformPrior
from felbo.random import torch_seed
from felbo.training.fit import fit
from felbo.training.optimizers import MakeOptimizer, check_learning_rate
from felbo.training.sources import Data, num_items

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Layers = Literal["all", "last"]

# Number of steps by default: a trained network needs few, for data of any size.
STEPS = 300
BATCH_SIZE = 128
# Highest rates by default. Adam's steps do not grow with the gradients, and so not with the scale
# of the inputs, which no layer puts right in a network without normalisation (docs/elsewhere.md).
SGD_RATE, ADAM_RATE = 0.01, 0.003


def finetune(
    network: nn.Module,
    data: Data,
    objective: Objective | LossFunction | None = None,
    *,
    model: Callable[[nn.Module], StochasticClassifier] = MAP,
    layers: Layers = "all",
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    optimizer: MakeOptimizer | None = None,
    augment: Callable[[Inputs], Inputs] | None = None,
    seed: int | None = None,
    fabric: Fabric | None = None,
    progress: bool = True,
) -> StochasticClassifier:
    """Fine-tune a trained network with a prior over its predictions.

    Batch normalisation keeps its running statistics.

    Args:
        network: a trained network that maps ``[B, ...]`` to logits ``[B, K]``, or a stochastic
            classifier such as ``Ensemble.from_networks(networks)``. It is not changed.
        data: what :func:`felbo.fit` takes; the data of the first training, or a part of them.
        objective: ``None`` is :meth:`felbo.FunctionSpaceELBO.everywhere` with a uniform prior, for
            images ``[B, C, H, W]`` and tables ``[B, D]``.
        model: builds the stochastic classifier from a plain network, for instance
            :class:`felbo.MCDropout`; a stochastic classifier is copied instead.
        layers: ``"all"`` trains every weight. ``"last"`` trains the last linear or convolutional
            layer (the last one that the network's constructor registers, in each member of an
            ensemble).
        epochs: passes over the data; ``None``: as many as needed for 300 steps, at least one.
        batch_size: B for tensors and a ``Dataset``, 128 unless given; a ``DataLoader`` has its own.
        learning_rate: highest rate of the default optimiser, which is SGD with momentum (``None``:
            0.01) for networks with normalisation layers and Adam (``None``: 0.003) for others. The
            rate rises to it in the first quarter of the steps and falls in the rest. An optimiser
            class has it all the time.
        optimizer: builds another optimiser from the parameters, with a constant learning rate; or
            is its class.
        augment: data augmentation, applied to the inputs of each batch, such as random crops.
        seed: of the shuffle and of the draws.
        fabric: device, precision and strategy; ``None`` takes the best single device.
        progress: show a progress bar.

    Returns:
        The new model, in evaluation mode. :func:`felbo.training.compare_before_after` compares it
        with the original.

    Example:
        >>> import torch, felbo
        >>> x, y = torch.randn(64, 2), torch.arange(64) % 2
        >>> trained = felbo.networks.mlp(2, (8,), 2)
        >>> model = felbo.finetune(trained, (x, y), layers="last", progress=False)
        >>> type(model).__name__
        'MAP'
    """
    _check(network, data, layers)
    tuned = deep_copy(network) if isinstance(network, StochasticClassifier) else model(network)
    if batch_size is not None:
        batch_size = whole_number("batch_size", batch_size)
    elif not isinstance(data, DataLoader):
        batch_size = BATCH_SIZE
    steps = _steps_per_epoch(data, batch_size)
    if epochs is None:
        epochs = 1 if steps is None else max(1, -(-STEPS // steps))
    if objective is None:
        objective = _everywhere(tuned, data, augment)
    trained_before = {parameter: parameter.requires_grad for parameter in tuned.parameters()}
    if layers == "last":
        last = set(tuned.last_layer_parameters())
        for parameter in tuned.parameters():
            parameter.requires_grad_(parameter in last)
    rises_and_falls = optimizer is None and steps is not None
    if optimizer is None:
        if learning_rate is not None:
            check_learning_rate(learning_rate)
        optimizer, learning_rate = partial(_default_optimizer(tuned), rate=learning_rate), None
    fit(
        tuned,
        objective,
        data,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        optimizer=optimizer,
        scheduler=partial(one_cycle, steps=epochs * (steps or 1)) if rises_and_falls else None,
        scheduler_step="step",
        augment=augment,
        seed=seed,
        frozen_norms=True,
        fabric=fabric,
        progress=progress,
    )
    for parameter, trainable in trained_before.items():
        parameter.requires_grad_(trainable)
    return tuned.eval()


def _check(network: Any, data: Any, layers: str) -> None:
    if layers not in ("all", "last"):
        raise SettingError(f"layers must be 'all' or 'last', got {layers!r}.")
    if not isinstance(network, nn.Module):
        raise InputTypeError(
            f"finetune starts from a network (nn.Module), got {type(network).__name__}; for a list "
            "of networks pass felbo.Ensemble.from_networks(networks)."
        )
    if not isinstance(data, tuple | list | Dataset | DataLoader):
        raise InputTypeError(
            "finetune takes network, data and objective in this order; data must be a DataLoader, "
            f"a Dataset or a pair (x, y), got {type(data).__name__}."
        )


def _steps_per_epoch(data: Data, items: int | None) -> int | None:
    """Return the number of batches in a pass; ``None`` for a stream without a length."""
    if isinstance(data, DataLoader):
        try:
            return len(data)
        except TypeError:
            return None
    count = num_items(data)
    return None if count is None else -(-count // (items or count))


def _everywhere(
    model: StochasticClassifier, data: Data, augment: Callable[[Inputs], Inputs] | None
) -> Objective:
    """Return the recommended bound for a model and its data."""
    num_data = num_items(data)
    if num_data is None:
        raise InputTypeError(
            "The data have no length, which the default objective needs. Pass an objective: "
            "felbo.FunctionSpaceELBO.everywhere(felbo.UniformPrior(K), num_data=N)."
        )
    parameter = next(model.parameters())
    with torch_seed(0), evaluation_mode([model]), torch.no_grad():
        first = _first_input(data, parameter.dtype)
        x = map_tensors(lambda part: part.to(parameter.device, copy=True), first)
        classes = model(x if augment is None else augment(x)).shape[-1]
    return FunctionSpaceELBO.everywhere(UniformPrior(classes), num_data)


def _first_input(data: Data, dtype: torch.dtype) -> Inputs:
    """Return a small batch of inputs."""
    if isinstance(data, tuple | list):
        # One or two items are enough; arrays and DataFrames become tensors first.
        x = as_inputs(data[0], dtype)
        return map_tensors(lambda part: part[: min(2, batch_size(x))], x)
    loader = data if isinstance(data, DataLoader) else DataLoader(data, 2)
    return split_labels(next(iter(loader)))[0]


def _default_optimizer(model: nn.Module) -> Callable[..., Optimizer]:
    """Return what builds the optimiser of a model: SGD if it has a normalisation layer, else Adam.

    Names of classes also tell the layers of other libraries, such as ``LlamaRMSNorm``;
    ``Normalize``, which scales inputs, is none of them.
    """
    names = [type(part).__name__ for part in model.modules()]
    return _sgd if any("Norm" in name and "Normal" not in name for name in names) else _adam


def _sgd(parameters: Iterable[nn.Parameter], rate: float | None) -> SGD:
    rate = SGD_RATE if rate is None else rate
    return SGD(_trained(parameters), lr=rate, momentum=0.9, nesterov=True)


def _adam(parameters: Iterable[nn.Parameter], rate: float | None) -> Adam:
    return Adam(_trained(parameters), lr=ADAM_RATE if rate is None else rate)


def _trained(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    return [parameter for parameter in parameters if parameter.requires_grad]


def one_cycle(optimizer: Optimizer, steps: int) -> LambdaLR:
    """Return a triangular schedule: the rate rises in a quarter of the steps, then falls.

    torch's OneCycleLR needs more steps than a test or a tiny data set may have.
    """
    rising = steps / 4

    def part(step: int) -> float:
        return min(1.0, (step + 1) / rising, (steps - step) / (steps - rising))

    return LambdaLR(optimizer, part)
