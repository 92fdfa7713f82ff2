"""Validate settings, model and data of a training before the first optimiser step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from felbo._numbers import refuse_booleans, whole_number
from felbo.errors import DataError, SettingError, StateError
from felbo.inputs import Inputs, batch_size
from felbo.models import StochasticClassifier
from felbo.objectives import FunctionSpaceELBO, Objective
from felbo.objectives.checks import check_choice, check_labels
from felbo.objectives.forward import BATCH_NORMS
from felbo.training.batches import TensorBatches
from felbo.training.sources import Batches

ADVICE = "Choose another batch_size, or a DataLoader with drop_last=True."


def check_settings(
    epochs: int,
    accumulate: int,
    clip_norm: float | None,
    validated: bool,
    patience: int | None,
    monitor: str,
) -> None:
    """Raise for settings of a training that are out of range or contradict each other."""
    refuse_booleans(clip_norm=clip_norm)
    check_choice("monitor", monitor, ("nll", "loss", "accuracy"))
    for name, value in {"epochs": epochs, "accumulate": accumulate, "patience": patience}.items():
        if value is not None:
            whole_number(name, value)
    if clip_norm is not None and not 0.0 < clip_norm < math.inf:
        raise SettingError(f"clip_norm must be positive and finite, got {clip_norm}.")
    if patience is not None and not validated:
        raise SettingError(
            "patience waits for a better score on validation data: pass validation=(x, y), a "
            "Dataset or a DataLoader."
        )


def check_trainable(model: nn.Module) -> None:
    """Raise if there is nothing to train, or no gradient to train with."""
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise SettingError(
                f"The parameter {name!r} is lazy and has no shape yet: run one batch through the "
                "model before it is trained."
            )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise SettingError(
            f"{type(model).__name__} has no parameter to train: its network has no weights, or all "
            "of them are frozen (requires_grad=False)."
        )
    if not torch.is_grad_enabled():
        raise StateError(
            "Training needs gradients: call fit outside torch.no_grad() and torch.inference_mode()."
        )
    for name, parameter in model.named_parameters():
        if parameter.is_inference():
            raise StateError(
                f"The parameter {name!r} was made in torch.inference_mode(), and torch has no "
                "gradients for it: build the model outside."
            )


def check_accumulation(accumulate: int, objective: Objective, batches: Batches) -> None:
    """Raise if the KL weight is 1 / B, but the items B of an accumulated step are not known."""
    by_batch = isinstance(objective, FunctionSpaceELBO) and (
        objective.kl_weight == "batch" and objective.batch_size is None
    )
    if accumulate > 1 and by_batch and batches.full_size is None:
        raise SettingError(
            "kl_weight='batch' is 1 / B with B the items per optimiser step, which this DataLoader "
            f"does not tell. Pass batch_size={accumulate} * (items per batch) to the objective."
        )


def check_last_batch(model: StochasticClassifier, objective: Objective, batches: Batches) -> None:
    """Raise if the last batch of an epoch cannot be split over the members of the model."""
    last, splits = batches.last_size, objective.num_samples in (None, 1)
    if splits and last and last < model.smallest_batch:
        raise DataError(
            f"The last batch would hold {last} of the items and this {type(model).__name__} needs "
            f"at least {model.smallest_batch} per training step. {ADVICE}"
        )


@contextmanager
def first_forward(
    model: StochasticClassifier, batches: Batches, validation_labels: Tensor | None = None
) -> Iterator[Callable[[Inputs], None]]:
    """Context manager: yield a check to call after the forward pass of each step, with its inputs.

    In the first step, before any weight is updated, it compares the data with that pass and raises
    if a later step would be refused: for labels of tensors that are out of range, and for a
    last batch of one item under batch normalisation.

    Args:
        model: the model being trained, in training mode.
        batches: the batches of an epoch. The labels of a ``DataLoader`` are not known yet.
        validation_labels: ``[N]``, if they are known.
    """
    seen = _Seen()
    hooks = [
        model.register_forward_hook(seen.model),
        *(
            norm.register_forward_pre_hook(partial(seen.norm, name), with_kwargs=True)
            for name, norm in model.named_modules()
            if isinstance(norm, BATCH_NORMS)
        ),
    ]

    def check(x: Inputs) -> None:
        if not hooks:
            return
        while hooks:
            hooks.pop().remove()
        if isinstance(batches, TensorBatches) and seen.classes:
            check_labels(batches.y.cpu(), batches.size, seen.classes)
        if validation_labels is not None and seen.classes:
            check_labels(validation_labels.cpu(), len(validation_labels), seen.classes)
        if batches.last_size == 1:
            _check_norms(seen, batch_size(x))

    try:
        yield check
    finally:
        for hook in hooks:
            hook.remove()


class _Seen:
    """Number of classes and batch-normalisation inputs of a forward pass, recorded by hooks.

    Attributes:
        classes: K; 0 if the model was not called.
        norms: name, rows, and values per row and channel of each batch normalisation that trains.
    """

    def __init__(self) -> None:
        self.classes = 0
        self.norms: list[tuple[str, int, int]] = []

    def model(self, _: nn.Module, args: tuple[Any, ...], logits: Tensor) -> None:
        self.classes = logits.shape[-1]

    def norm(
        self, name: str, norm: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        x = args[0] if args else kwargs["input"]
        if norm.training:
            self.norms.append((name, len(x), x[0].numel() // x.shape[1]))


def _check_norms(seen: _Seen, full: int) -> None:
    """Raise if one item would give a batch normalisation a single value per channel."""
    for name, rows, values in seen.norms:
        # There are more rows than items with points beside the batch, or with several members.
        if rows * values == full:
            raise DataError(
                f"The last batch would hold 1 of the items, which the batch normalisation {name!r} "
                f"cannot be trained on: it needs more than one value per channel. {ADVICE}"
            )
