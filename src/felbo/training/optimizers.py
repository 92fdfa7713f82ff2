"""Optimiser and learning-rate schedule of a training."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from felbo._numbers import refuse_booleans
from felbo.errors import InputTypeError, SettingError
from felbo.objectives.checks import check_choice

MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]
MakeScheduler = Callable[[Optimizer], Any]

LEARNING_RATE = 1e-3
EXAMPLE = "optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9)"


def make_optimizer(
    given: MakeOptimizer | Optimizer | None, model: nn.Module, learning_rate: float | None
) -> Optimizer:
    """Return the optimiser of a model's parameters: Adam, or the one that is given.

    Args:
        given: an optimiser, a function that builds one from the parameters, an optimiser class, or
            ``None``.
        model: the model to train.
        learning_rate: of Adam or of an optimiser class; ``None`` is 1e-3.

    Raises:
        SettingError: if the learning rate is negative, infinite or NaN.
        ValueError: if the optimiser holds no parameter of the model, or if a learning rate is given
            beside an optimiser that has its own.
    """
    rate = LEARNING_RATE if learning_rate is None else learning_rate
    check_learning_rate(rate)
    if given is None:
        # The fused kernel, on devices that support it.
        fused = {p.device.type for p in model.parameters()} <= {"cpu", "cuda"}
        return torch.optim.Adam(model.parameters(), lr=rate, fused=fused)
    if isinstance(given, type) and issubclass(given, Optimizer):
        return given(model.parameters(), lr=rate)  # type: ignore[call-arg]
    if learning_rate is not None:
        raise SettingError(
            f"learning_rate={learning_rate:g} would be ignored, since the optimiser has its own: "
            f"set it there, e.g. {EXAMPLE}."
        )
    made: Any = given
    if not isinstance(made, Optimizer) and callable(made):
        made = made(model.parameters())
    if not isinstance(made, Optimizer):
        raise InputTypeError(
            "optimizer must be an optimiser of the model's parameters, or a function that builds "
            f"one, e.g. {EXAMPLE}; got {made!r}. None is Adam with learning_rate."
        )
    _check_parameters(made, model)
    return made


def check_learning_rate(rate: float) -> None:
    """Raise unless a learning rate is a finite number of at least 0."""
    refuse_booleans(learning_rate=rate)
    if not 0.0 <= rate < math.inf:
        raise SettingError(f"learning_rate must be a number ≥ 0, got {rate}.")


def _check_parameters(optimizer: Optimizer, model: nn.Module) -> None:
    """Raise if an optimiser holds none of the model's parameters.

    Models copy the network that they are made from, so an optimiser of the network itself would
    train nothing.
    """
    own = set(model.parameters())
    if not any(p in own for group in optimizer.param_groups for p in group["params"]):
        raise SettingError(
            f"The optimiser holds no parameter of this {type(model).__name__}, which is a copy of "
            "the network it was made from. Make the optimiser from model.parameters(), or pass a "
            f"function: {EXAMPLE}."
        )


def needs_closure(optimizer: Optimizer) -> bool:
    """True if a step computes the loss several times, as LBFGS does."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


class Schedule:
    """A learning-rate scheduler that advances once per epoch or once per step.

    Args:
        given: builds a scheduler from the optimiser, or is one; ``None`` keeps the learning rate.
        optimizer: the optimiser whose learning rate is scheduled.
        advance: ``"epoch"`` or ``"step"``.
    """

    def __init__(
        self,
        given: MakeScheduler | LRScheduler | None,
        optimizer: Optimizer,
        advance: Literal["epoch", "step"],
    ) -> None:
        check_choice("scheduler_step", advance, ("epoch", "step"))
        self.optimizer = optimizer
        self.scheduler = _make_scheduler(given, optimizer)
        self.per_step = self.scheduler is not None and advance == "step"
        self.per_epoch = self.scheduler is not None and advance == "epoch"

    def advance(self, loss: Tensor | float) -> None:
        """Advance the scheduler; ``ReduceLROnPlateau`` looks at the loss."""
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(float(loss))
        else:
            self.scheduler.step()


def _make_scheduler(given: Any, optimizer: Optimizer) -> Any:
    if given is None:
        return None
    if not isinstance(given, LRScheduler) and not callable(given):
        raise InputTypeError(
            "scheduler must be a learning-rate scheduler, or a function that builds one from the "
            "optimiser, e.g. scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer,"
            f" 10); got {given!r}."
        )
    made = given if isinstance(given, LRScheduler) else given(optimizer)
    if isinstance(given, LRScheduler) and given.optimizer is not optimizer:
        raise SettingError(
            "The scheduler belongs to another optimiser. Pass that one as optimizer too, or a "
            "function: scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 10)."
        )
    if isinstance(made, ReduceLROnPlateau) and made.mode == "max":
        raise SettingError(
            "ReduceLROnPlateau looks at a loss here, which falls: build it with mode='min'."
        )
    return made
