"""Non-finite losses, gradients and weights: error messages, and a copy of finite weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from felbo.errors import DivergedError, NonFiniteInputError
from felbo.inputs import Inputs, tensors

# Steps between two copies of the weights: rare enough to cost nothing beside the steps.
EVERY = 50
SMALLER_STEPS = "try a smaller learning rate, or clip gradients with clip_norm"


class LastGoodWeights:
    """A recent copy of finite weights and running statistics, to restore after divergence.

    A gradient that is not finite is found one step late, by the loss after it: checking every
    gradient would cost more than copying the weights now and then.

    Args:
        model: the model being trained.
        step: number of its steps so far.
    """

    def __init__(self, model: nn.Module, step: int = 0) -> None:
        # A buffer may be infinite on purpose, such as the mask of an attention.
        kept = [buffer for buffer in model.buffers() if all_finite([buffer])]
        self.values = [*model.parameters(), *kept]
        self.model, self.step = model, step
        self._copies = [value.detach().clone() for value in self.values]

    def keep(self, step: int) -> None:
        """Copy the weights after a step, if the last copy is old and they are finite."""
        if step - self.step >= EVERY and all_finite(self.values):
            self.step = step
            _copy(self.values, self._copies)

    def put_back(self) -> bool:
        """Give the model its last good weights if it has others; return whether it did."""
        if all_finite(self.values) or not all_finite(self._copies):
            return False
        _copy(self._copies, self.values)
        return True


def check_weights(model: nn.Module) -> None:
    """Raise if weights are not finite after a step: its loss was computed before them."""
    bad = _first_bad(model)
    if bad is not None:
        raise DivergedError(
            f"The last steps made weights that are not finite, first in {bad}: {SMALLER_STEPS}.",
            "weights",
        )


def not_finite(values: Tensor, x: Inputs, model: nn.Module) -> DivergedError:
    """Return the error for a loss that is not finite.

    Args:
        values: ``[total, nll, kl]``.
        x: inputs of the batch.
        model: with the weights that gave the loss.
    """
    total, nll, kl = values.tolist()
    bad_terms = [name for name, part in zip(("nll", "kl"), values[1:], strict=True) if _bad(part)]
    term = " and ".join(bad_terms) or "loss"
    said = f"The loss became {total} (nll {nll}, kl {kl})."
    rows = _bad_rows(x)
    if rows:
        return NonFiniteInputError(
            f"{said} The inputs of this batch hold NaN or infinity, first in its item {rows[0]}: "
            "remove or replace such items. This step was not taken.",
            term,
        )
    bad = _first_bad(model)
    if bad is not None:
        advice = (
            f"The step before made the weights infinite or NaN, first in {bad}: {SMALLER_STEPS}."
        )
    elif bad_terms == ["kl"]:
        advice = (
            "Inputs and weights are finite, and so is the nll: look at the prior and at the points "
            f"of the measurement set; else {SMALLER_STEPS}."
        )
    else:
        advice = f"Inputs and weights are finite: {SMALLER_STEPS}."
    return DivergedError(f"{said} {advice} This step was not taken.", term)


def all_finite(values: Iterable[Tensor]) -> bool:
    """True if no value is NaN or infinite."""
    return all(_is_finite(value.detach()) for value in values if value.is_floating_point())


def _is_finite(values: Tensor) -> bool:
    """True if no value is NaN or infinite: both pass through minimum and maximum."""
    if not values.numel():
        return True
    return all(math.isfinite(end) for end in values.aminmax())


@torch.no_grad()
def _copy(source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    for value, copy in zip(source, target, strict=True):
        copy.copy_(value)


def _bad(value: Tensor) -> bool:
    return not bool(value.isfinite())


def _bad_rows(x: Inputs) -> list[int]:
    """Return the first item of each tensor that is not finite."""
    found = []
    for part in tensors(x):
        if not all_finite([part]):
            found.append(int((~part.isfinite()).reshape(len(part), -1).any(1).nonzero()[0]))
    return sorted(found)


def _first_bad(model: nn.Module) -> str | None:
    named = ((name, part) for name, part in model.named_parameters() if not all_finite([part]))
    return next((name for name, _ in named), None)
