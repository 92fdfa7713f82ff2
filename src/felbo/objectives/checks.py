"""Argument checks of objectives: settings, models, labels and priors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from felbo._numbers import refuse_booleans
from felbo.errors import DataError, InputTypeError, SettingError, ShapeError
from felbo.inputs import Inputs, check_one_label_each
from felbo.models import StochasticClassifier

# torch's losses silently ignore the label −100 unless ignore_index is set to another value.
NO_LABEL = -(2**63)


class CheckedLabels:
    """Context in which a loss of ``logits [M, B, K]`` and ``labels [B]`` is computed.

    Raises unless the labels are integers in 0 … K − 1. Their range is checked only after the loss
    failed for it: in every step it would cost as much as the loss.
    """

    def __init__(self, labels: Tensor, logits: Tensor) -> None:
        self.labels, self.logits = labels, logits

    def __enter__(self) -> None:
        check_label_kind(self.labels, self.logits.shape[1])

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, IndexError | RuntimeError):
            check_label_range(self.labels, self.logits.shape[2])


def check_labels(labels: Tensor, batch: int, classes: int) -> None:
    """Raise unless ``labels`` is ``[B]`` of integers in 0 … K − 1."""
    check_label_kind(labels, batch)
    check_label_range(labels, classes)


def check_label_kind(labels: Tensor, batch: int) -> None:
    """Raise unless ``labels`` is ``[B]`` of integers, B ≥ 1."""
    if batch == 0:
        raise DataError("The batch holds no items, and a mean over none is no loss: skip it.")
    if not isinstance(labels, Tensor):
        raise InputTypeError(
            f"Labels must be a tensor of class indices, got {type(labels).__name__}: convert them "
            "with torch.as_tensor."
        )
    check_one_label_each(labels, batch)
    if labels.dtype not in (torch.int64, torch.int32, torch.uint8):
        raise InputTypeError(f"Labels must be integer class indices (int64), got {labels.dtype}.")


def check_label_range(labels: Tensor, classes: int) -> None:
    """Raise unless ``labels`` lie in 0 … K − 1."""
    # On an accelerator the comparison would synchronise in every step; there torch's own kernels
    # raise for such labels.
    if labels.device.type == "cpu" and len(labels):
        low, high = (int(bound) for bound in torch.aminmax(labels))
        if low < 0 or high >= classes:
            raise DataError(
                f"Labels must lie in 0 … {classes - 1}, since the model gives {classes} classes; "
                f"got labels from {low} to {high}."
            )


def concentration_at(prior: Any, points: Inputs) -> Tensor:
    """Return the concentration β of a prior at points, a constant.

    Raises:
        TypeError: if it is no prior, or does not return a Dirichlet.
    """
    if isinstance(prior, type) or not callable(prior):
        raise InputTypeError(
            "A prior maps points to a torch.distributions.Dirichlet, such as felbo.UniformPrior(K) "
            f"or felbo.DirichletPrior(beta); got {prior!r}."
        )
    with torch.no_grad():
        belief = prior(points)
    concentration = getattr(belief, "concentration", None)
    if not isinstance(concentration, Tensor):
        raise InputTypeError(
            "A prior must return a torch.distributions.Dirichlet, got "
            f"{type(belief).__name__}: wrap its concentration as Dirichlet(beta)."
        )
    # A Dirichlet of a parameter refers to the parameter itself.
    return concentration.detach()


def check_prior(concentration: Tensor, points: int, classes: int) -> None:
    """Raise unless the prior's concentration is positive and broadcasts to ``[S, K]``."""
    shape = tuple(concentration.shape)
    if shape[-1:] != (classes,):
        raise ShapeError(
            f"The prior has {shape[-1] if shape else 0} classes and the model {classes}. "
            "Build both for the same number of classes."
        )
    if shape[:-1] not in ((), (points,)):
        raise ShapeError(
            f"The prior must give one Dirichlet per measurement point, batch shape [{points}] "
            f"(or [] when it does not depend on x), got {list(shape[:-1])}."
        )
    # Under torch.func.vmap, float() needs the unwrapped tensor.
    values = torch.func.debug_unwrap(concentration)
    low, high = (float(bound) for bound in torch.aminmax(values))
    if not 0.0 < low <= high < math.inf:
        raise DataError(
            "Every concentration of the prior must be positive and finite, got values from "
            f"{low} to {high}. Smooth a prior that gives zeros: felbo.dirichlet.smooth."
        )


def check_model(model: Any) -> None:
    """Raise if a plain network was passed in place of a stochastic classifier."""
    if isinstance(model, StochasticClassifier):
        return
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"Expected a stochastic classifier, got {type(model).__name__}.")
    # Wrappers such as Fabric's or torch.compile's hold the classifier as a submodule.
    if not any(isinstance(part, StochasticClassifier) for part in model.modules()):
        raise InputTypeError(
            f"{type(model).__name__} is a plain network. Wrap it first: felbo.MAP(network), "
            "felbo.MCDropout(network), or felbo.Ensemble(make_network, members=5)."
        )


def check_count(what: str, value: Any) -> None:
    """Raise unless ``value`` is a finite number of at least one."""
    refuse_booleans(**{what: value})
    if not isinstance(value, Real) or not 1 <= float(value) < math.inf:
        raise SettingError(f"{what} must be a number ≥ 1, got {value!r}.")


def check_weight(what: str, value: Any) -> None:
    """Raise unless ``value`` is a finite, non-negative number."""
    refuse_booleans(**{what: value})
    if not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise SettingError(f"{what} must be finite and ≥ 0, got {value!r}.")


def check_smoothing(value: float) -> None:
    """Raise unless γ lies in [0, 1)."""
    refuse_booleans(smoothing=value)
    if not 0.0 <= value < 1.0:
        raise SettingError(f"smoothing must lie in [0, 1), got {value}.")


def check_choice(what: str, value: Any, choices: Sequence[str]) -> None:
    """Raise unless ``value`` is one of the choices."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise SettingError(f"{what} must be one of {listed}; got {value!r}.")


def warn_if_flat(weight: float, classes: int) -> None:
    """Warn if the weight on the training batch is too large to fit the labels.

    For one draw and a uniform prior the best prediction for a label is
    ``f_y = (1 + w) / (1 + K w)``.
    """
    best = (1.0 + weight) / (1.0 + classes * weight)
    if best < 0.75:
        smaller = 0.1 / (0.9 * classes - 1.0)  # f_y = 0.9
        warnings.warn(
            f"The KL on the training batch itself has a weight of {weight:g}: with a uniform prior "
            f"over {classes} classes no prediction can go beyond {best:.2f} for its label. Use a "
            f"smaller kl_weight, such as {smaller:.1g}, or measure elsewhere, e.g. "
            "felbo.FunctionSpaceELBO.everywhere(...).",
            stacklevel=4,
        )
