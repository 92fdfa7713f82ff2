"""Predict with a model, a list of trained networks, or existing draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from felbo import fused
from felbo._numbers import refuse_booleans, whole_number
from felbo.dirichlet.validation import check_draws, check_simplex
from felbo.errors import DataError, InputTypeError, SettingError, ShapeError
from felbo.evaluation.batches import input_batches
from felbo.evaluation.members import Members, check_networks
from felbo.evaluation.prediction import Prediction
from felbo.evaluation.spread import Spread, concatenate, summarise
from felbo.inputs import Inputs, explained, tensors
from felbo.models import evaluation_mode, unwrap
from felbo.models.unwrap import UNKNOWN_SIZE, known_size
from felbo.objectives.forward import checked
from felbo.random import torch_seed


@torch.no_grad()
def predict(
    model: nn.Module | Sequence[nn.Module] | Tensor | np.ndarray[Any, Any],
    x: Inputs | Iterable[Any] | None = None,
    *,
    num_samples: int | None = None,
    num_data: int | None = None,
    batch_size: int | None = None,
    smoothing: float = 1e-4,
    seed: int | None = None,
) -> Prediction:
    """Predict class probabilities with their epistemic uncertainty.

    Args:
        model: one of

            - a stochastic classifier, also inside a wrapper (compiled, averaged, distributed);
            - a list of trained networks with logits ``[B, K]``: an existing ensemble, with one draw
              per network;
            - existing draws, as class probabilities ``[M, B, K]``, without ``x``.

            Models run in evaluation mode; the mode of every module is restored.
        x: inputs ``[B, ...]`` as a tensor, array or DataFrame, or a tuple or dict of these for a
            network with several arguments; or batches, from a ``DataLoader``, a ``Dataset``, a list
            or an iterator: ``x``, ``(x, y)``, or dicts; y and ``"labels"`` are ignored. Results are
            in the order of the inputs.
        num_samples: draws; ``None`` takes the model's evaluation default.
        num_data: N, upper bound of the fitted precision (the size of the training set in the
            paper); ``None`` is ``model.num_data``, which :func:`felbo.fit` sets, or 1,000,000 for a
            model without it, a list of networks and draws.
        batch_size: inputs per forward pass; ``None`` takes fewer of larger inputs, 2048 at most.
            Batches of a loader keep their size.
        smoothing: γ with which draws are smoothed before the Dirichlet is fitted to them; with 0,
            all results are float64.
        seed: of the draws; ``None`` is torch's global generator.

    Returns:
        Probabilities, concentration, precision and uncertainties, on the model's device.

    Raises:
        ValueError: if a prediction is not finite, as for inputs that hold NaN.

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
    cap = bound_of_precision(model) if num_data is None else num_data
    _check_settings(cap, batch_size, smoothing)
    if isinstance(model, Tensor | np.ndarray):
        return _from_draws(model, x, num_samples, cap, smoothing)
    if x is None:
        raise InputTypeError("predict(model, x) needs inputs x; only draws [M, B, K] come without.")
    source = _source(model, num_samples)
    # Without smoothing, a probability that underflows to 0 would distort the fit.
    least = torch.float32 if smoothing else torch.float64
    means: list[Tensor] = []
    behind: list[Tensor] = []
    items = draws = 0
    with torch_seed(seed), evaluation_mode(source.modules):
        for batch in input_batches(x, batch_size, source.modules[0]):
            logits = source.logits(batch, least)
            probs = fused.softmax(logits)
            # Only mean and spread of the draws are kept, to save memory.
            reduced = (probs[0], logits[0].exp()) if source.direct else summarise(probs, smoothing)
            _check_finite(reduced[0], items)
            means.append(reduced[0])
            behind.append(reduced[1])
            items, draws = items + probs.shape[1], len(probs) if source.is_random else 1
    joined = concatenate(behind)
    return Prediction(
        concatenate(means), joined if source.direct else Spread(draws, joined, smoothing, cap)
    )


def bound_of_precision(model: Any) -> int:
    """Return the number of training examples of a model, or a large one if it is not known."""
    known = known_size(model) if isinstance(model, nn.Module) else None
    return UNKNOWN_SIZE if known is None else known


class _Source(NamedTuple):
    """Source of draws.

    Attributes:
        modules: the modules that run.
        draw: maps a batch to logits ``[M, B, K]``.
        is_random: True if draws can differ.
        direct: True if the logits are log α of a Dirichlet that the model predicts directly.
    """

    modules: Sequence[nn.Module]
    draw: Callable[[Inputs], Tensor]
    is_random: bool = True
    direct: bool = False

    def logits(self, batch: Inputs, dtype: torch.dtype) -> Tensor:
        """Return the logits ``[M, B, K]``, checked, of ``dtype`` or wider."""
        with explained(batch, self.modules[0]):
            logits = checked(self.draw(batch), len(next(tensors(batch))))
        return logits.to(torch.promote_types(logits.dtype, dtype))


def _from_draws(
    given: Any, x: Any, num_samples: int | None, num_data: int, smoothing: float
) -> Prediction:
    draws = torch.as_tensor(given)
    if x is not None:
        raise InputTypeError("Draws [M, B, K] are predictions already: pass them alone, without x.")
    if num_samples is not None:
        raise InputTypeError(f"num_samples is the first axis of the draws, {len(draws)}; omit it.")
    if draws.dim() != 3:
        raise ShapeError(
            "Draws are class probabilities [M, B, K] (draws, inputs, classes), "
            f"got shape {list(draws.shape)}."
        )
    check_draws(draws)
    check_simplex(draws)
    mean, spread = summarise(draws.detach(), smoothing)
    return Prediction(mean, Spread(len(draws), spread, smoothing, num_data))


def _source(model: nn.Module | Sequence[nn.Module], num_samples: int | None) -> _Source:
    if isinstance(model, list | tuple | nn.ModuleList):
        networks = list(model)
        check_networks(networks, num_samples)
        return _Source(networks, Members(networks))
    if not isinstance(model, nn.Module):
        raise InputTypeError(
            "predict takes a stochastic classifier, a list of networks or draws [M, B, K], "
            f"got {type(model).__name__}."
        )
    inner = unwrap(model)
    draw = partial(model, num_samples=1 if inner.gives_concentration else num_samples)
    return _Source([model], draw, inner.is_random, inner.gives_concentration)


def _check_finite(probs: Tensor, before: int) -> None:
    # NaN and infinity pass through the sum, and probabilities cannot overflow it.
    if not math.isfinite(probs.sum()):
        index = before + int((~probs.isfinite().all(-1)).nonzero()[0])
        raise DataError(
            f"The prediction for input {index} is not finite: does this input hold NaN or "
            "infinity, or the model a weight that does?"
        )


def _check_settings(num_data: int, batch_size: int | None, smoothing: float) -> None:
    refuse_booleans(num_data=num_data, smoothing=smoothing)
    if batch_size is not None:
        whole_number("batch_size", batch_size)
    if not 1 <= num_data < float("inf"):
        raise SettingError(f"num_data is the number of training examples, got {num_data}.")
    if not 0 <= smoothing < 1:
        raise SettingError(f"smoothing must lie in [0, 1), got {smoothing}.")
