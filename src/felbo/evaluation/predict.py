"""From a model, networks that exist already, or draws, to predictions with their uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from felbo._softmax import softmax
from felbo.dirichlet._validation import check_draws, check_simplex
from felbo.evaluation.prediction import Prediction, Spread, concatenate, summarise
from felbo.models import ConcentrationNetwork, StochasticClassifier
from felbo.random import torch_seed

Inputs = Tensor | Iterable[Any]


@torch.no_grad()
def predict(
    model: StochasticClassifier | Sequence[nn.Module] | nn.ModuleList | Tensor,
    x: Inputs | None = None,
    *,
    num_samples: int | None = None,
    num_data: int = 1_000_000,
    batch_size: int = 2048,
    smoothing: float = 1e-4,
    seed: int | None = None,
) -> Prediction:
    """Predict class probabilities with their epistemic uncertainty.

    Args:
        model: one of

            - a stochastic classifier;
            - a list of trained networks, each giving logits ``[B, K]``: an ensemble that exists
              already, with one draw per network;
            - draws that exist already, as class probabilities ``[M, B, K]``, with no ``x``.

            Models run in evaluation mode and are left in the mode they came in.
        x: inputs ``[B, ...]``, or batches of them as a ``DataLoader`` gives (``x``, or ``(x, y)``
            of which y is ignored); results come in the loader's order.
        num_samples: draws; ``None`` takes the model's evaluation default.
        num_data: N, the cap of the fitted precision (the size of the training set in the paper).
        batch_size: inputs per forward pass; batches of a loader are taken as they come.
        smoothing: γ with which draws are smoothed before the Dirichlet is fitted to them.
        seed: of the draws; ``None`` is torch's global generator.

    Returns:
        Probabilities, concentration, precision and uncertainties, on the model's device.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MCDropout(felbo.networks.mlp(2, (8,), 3))
        >>> felbo.predict(model, torch.zeros(5, 2), seed=0).epistemic.shape
        torch.Size([5])
        >>> trained = [felbo.networks.mlp(2, (8,), 3) for _ in range(4)]
        >>> felbo.predict(trained, torch.zeros(5, 2)).concentration.shape
        torch.Size([5, 3])
        >>> draws = torch.tensor([[[0.6, 0.3, 0.1]], [[0.4, 0.4, 0.2]]])
        >>> felbo.predict(draws).probs
        tensor([[0.5000, 0.3500, 0.1500]])
    """
    _check_settings(num_data, batch_size, smoothing)
    if isinstance(model, Tensor):
        return _from_draws(model, x, num_samples, num_data, smoothing)
    if x is None:
        raise TypeError("predict(model, x) needs inputs x; only draws [M, B, K] come without.")
    if isinstance(model, ConcentrationNetwork):
        with _evaluation_mode([model]):
            batches = _batches(x, batch_size, _device(model))
            log_alpha = concatenate([model(batch, 1)[0] for batch in batches])
        return Prediction(softmax(log_alpha), log_alpha.exp())
    modules, draw = _source(model, num_samples)
    probs, spreads = [], []
    with _evaluation_mode(modules), torch_seed(seed):
        for batch in _batches(x, batch_size, _device(modules[0])):
            mean, spread = summarise(softmax(draw(batch)), smoothing)
            probs.append(mean)
            spreads.append(spread)
    return Prediction(concatenate(probs), Spread(concatenate(spreads), smoothing, num_data))


def _from_draws(
    draws: Tensor, x: Inputs | None, num_samples: int | None, num_data: int, smoothing: float
) -> Prediction:
    if x is not None:
        raise TypeError("Draws [M, B, K] are predictions already: pass them alone, without x.")
    if num_samples is not None:
        raise TypeError(f"num_samples is the first axis of the draws, {len(draws)}; leave it out.")
    if draws.dim() != 3:
        raise ValueError(
            "Draws are class probabilities [M, B, K] (draws, inputs, classes), "
            f"got shape {list(draws.shape)}."
        )
    check_draws(draws)
    check_simplex(draws)
    mean, spread = summarise(draws.detach().clone(), smoothing)
    return Prediction(mean, Spread(spread, smoothing, num_data))


def _source(
    model: StochasticClassifier | Sequence[nn.Module] | nn.ModuleList, num_samples: int | None
) -> tuple[Sequence[nn.Module], Callable[[Tensor], Tensor]]:
    """Return the modules that will run, and the function from a batch to logits ``[M, B, K]``."""
    if isinstance(model, StochasticClassifier):
        return [model], lambda batch: model(batch, num_samples)
    if isinstance(model, list | tuple | nn.ModuleList):
        networks = list(model)
        _check_networks(networks, num_samples)
        return networks, lambda batch: _member_logits(networks, batch)
    if isinstance(model, nn.Module):
        raise TypeError(
            f"{type(model).__name__} is a plain network with one prediction per input. Pass "
            "felbo.MAP(network), or a list of networks that were trained separately."
        )
    raise TypeError(
        "predict takes a stochastic classifier, a list of networks or draws [M, B, K], "
        f"got {type(model).__name__}."
    )


def _member_logits(networks: Sequence[nn.Module], batch: Tensor) -> Tensor:
    logits: list[Tensor] = [network(batch) for network in networks]
    shapes = [list(part.shape) for part in logits]
    if len(shapes[0]) != 2 or any(shape != shapes[0] for shape in shapes):
        raise ValueError(
            f"Every network should give logits [{len(batch)}, K] with the same number of classes "
            f"K, got {shapes}."
        )
    return torch.stack(logits)


def _batches(x: Inputs, batch_size: int, device: torch.device | None) -> Iterator[Tensor]:
    """Yield inputs on the device of the model."""
    empty = True
    for item in torch.split(x, batch_size) if isinstance(x, Tensor) else x:
        batch = item[0] if isinstance(item, list | tuple) and item else item
        if not isinstance(batch, Tensor):
            raise TypeError(
                "x must be a tensor, or give batches that are tensors x or pairs (x, y); "
                f"got a {type(x).__name__} of {type(item).__name__}."
            )
        empty = False
        yield batch if device is None else batch.to(device)
    if empty:
        raise ValueError("x gave no batch: there is nothing to predict.")


def _device(module: nn.Module) -> torch.device | None:
    parameter = next(module.parameters(), None)
    return None if parameter is None else parameter.device


@contextmanager
def _evaluation_mode(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Put modules into evaluation mode; afterwards every part gets its own mode back."""
    modes = [(part, part.training) for module in modules for part in module.modules()]
    try:
        for module in modules:
            module.eval()
        yield
    finally:
        for part, training in modes:
            part.training = training


def _check_settings(num_data: int, batch_size: int, smoothing: float) -> None:
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
    if num_data < 1:
        raise ValueError(f"num_data is the number of training examples, got {num_data}.")
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must lie in [0, 1), got {smoothing}.")


def _check_networks(networks: Sequence[Any], num_samples: int | None) -> None:
    if not networks:
        raise ValueError("The list of networks is empty; an ensemble needs at least one.")
    for network in networks:
        if isinstance(network, StochasticClassifier):
            raise TypeError(
                f"{type(network).__name__} gives draws of its own; predict with it by itself. A "
                "list holds plain networks."
            )
        if not isinstance(network, nn.Module):
            raise TypeError(f"A list holds networks (nn.Module), got {type(network).__name__}.")
    if num_samples not in (None, len(networks)):
        raise ValueError(
            f"{len(networks)} networks give exactly that many draws, got num_samples={num_samples}."
        )
