"""Describe a stochastic classifier as JSON and tensors, and build it again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from felbo._container import SavedFileError
from felbo.errors import InputTypeError
from felbo.models import (
    MAP,
    ConcentrationNetwork,
    Ensemble,
    MCDropout,
    MeanField,
    Radial,
    Rank1,
    StochasticClassifier,
    SubnetworkLaplace,
    Tempered,
    TemperedMean,
)
from felbo.random import torch_seed
from felbo.saving.dropout import build_dropout, describe_dropout
from felbo.saving.networks import Description, UnknownNetworkError, build, describe

# Draws or members of a model.
MOST_DRAWS = 100_000

Networks = nn.Module | Sequence[nn.Module] | Callable[[], nn.Module]


def describe_model(model: StochasticClassifier) -> Description:
    """Return what it takes to build a model, without its weights.

    Raises:
        TypeError: if the model is of a kind that is not one of felbo's.
    """
    kind = type(model)
    if kind not in _KINDS:
        raise InputTypeError(
            f"felbo.save knows {', '.join(known.__name__ for known in _KINDS)}, got a "
            f"{kind.__name__}: save its weights with safetensors.torch.save_model."
        )
    description = {
        "kind": kind.__name__,
        **_KINDS[kind][0](model),
        "evaluation_samples": model.evaluation_samples,
        "in_evaluation": [name for name, part in model.named_modules() if not part.training],
        "frozen": [name for name, part in model.named_parameters() if not part.requires_grad],
    }
    if not isinstance(model, Tempered):
        description |= _networks(model)
    return description


def build_model(
    description: Description, tensors: dict[str, Tensor], networks: Networks | None
) -> StochasticClassifier:
    """Return the model of a description with the given weights.

    Args:
        description: what :func:`describe_model` returned.
        tensors: the model's state dict.
        networks: the network inside it, if the description does not hold it.
    """
    _check_size(description, tensors, networks)
    with torch_seed(0):  # the weights are replaced, and the generators left as they were
        model = _built(description, networks)
    _load(model, tensors)
    frozen, still = set(description["frozen"]), set(description["in_evaluation"])
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    for name, part in model.named_modules():
        part.training = name not in still
    return model


def _check_size(
    description: Description, tensors: dict[str, Tensor], networks: Networks | None
) -> None:
    """Raise if a description asks for more weights than the file has, before these are allocated.

    Raises:
        SavedFileError: says so.
    """
    samples, described = description["evaluation_samples"], description.get("networks")
    members = description.get("members", 1)
    held = sum(tensor.numel() for tensor in tensors.values())
    good = all(isinstance(n, int) and 1 <= n <= MOST_DRAWS for n in (samples, members))
    if good and described is not None and networks is None:
        with torch.device("meta"):  # shapes without memory
            built = [build(part) for part in described]
        parameters = [p for network in built for p in network.parameters()]
        if description["kind"] == "Rank1":
            needed = members * sum(sum(p.shape[:2]) for p in parameters if p.dim() > 1)
        else:
            needed = sum(p.numel() for p in parameters) * (members if len(built) == 1 else 1)
        good = needed <= held
    if description["kind"] in ("Tempered", "TemperedMean"):
        _check_size(description["model"], tensors, networks)
    if not good:
        raise SavedFileError(
            f"The file describes a {description['kind']} that is larger than the {held:,} numbers "
            "it holds: it is damaged, or was not written by felbo.save."
        )


def _built(description: Description, networks: Networks | None) -> StochasticClassifier:
    kinds = {kind.__name__: build for kind, (_, build) in _KINDS.items()}
    if description["kind"] in ("Tempered", "TemperedMean"):
        inner: list[Any] = [_built(description["model"], networks)]
    else:
        inner = _given(description, networks)
    model = kinds[description["kind"]](description, inner)
    if not isinstance(model, Ensemble | TemperedMean):
        model.evaluation_samples = description["evaluation_samples"]
    return model


def _networks(model: StochasticClassifier) -> Description:
    """Return descriptions of the networks in a model: one, or one per member that differs."""
    parts = _members(model) if isinstance(model, Ensemble) else [_inner(model)]
    named = f"{type(parts[0]).__module__}.{type(parts[0]).__qualname__}"
    try:
        described = [describe(part) for part in parts]
    except UnknownNetworkError as error:
        return {"networks": None, "network": named, "reason": str(error)}
    same = all(part == described[0] for part in described)
    return {"networks": described[:1] if same else described, "network": named}


def _members(model: Ensemble) -> list[nn.Module]:
    if isinstance(model.members, nn.ModuleList):
        return list(model.members)
    return [model.member(0)]  # stacked members have one shape


def _inner(model: StochasticClassifier) -> nn.Module:
    return dict(model.named_children())["network"]


def _given(description: Description, networks: Networks | None) -> list[nn.Module]:
    """Return the networks of a model: one for all members, or one for each."""
    described = description["networks"]
    if described is not None and networks is None:
        return [build(part) for part in described]
    if networks is None:
        raise SavedFileError(
            f"The file holds the weights of a {description['kind']} around a "
            f"{description['network']}, which felbo cannot build ({description['reason']}). Pass "
            "a network that is built as it was: felbo.load(path, network=my_network())."
        )
    if isinstance(networks, nn.Module):
        return [networks]
    return list(networks) if isinstance(networks, Sequence) else [networks()]


def _load(model: StochasticClassifier, tensors: dict[str, Tensor]) -> None:
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if name in tensors:
            tensor.data = tensor.data.to(tensors[name].dtype)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise SavedFileError(
            f"The weights in the file do not fit this {type(model).__name__}. Pass a network that "
            f"is built as the saved one was. {error}"
        ) from error


def _skip(model: MeanField | Radial | Rank1) -> list[str]:
    """Return names to skip so that the same layers are converted again."""
    converted = model.converted
    return [
        name
        for name in model.not_converted
        if name and not any(layer.startswith(f"{name}.") for layer in converted)
    ]


def _build_ensemble(description: Description, networks: list[nn.Module]) -> Ensemble:
    members, stacked = description["members"], description["stacked"]
    parts = networks if len(networks) == members else networks[:1] * members
    copies = iter([copy.deepcopy(part).requires_grad_(stacked) for part in parts])
    # Frozen networks are not stacked; which parameters were frozen is restored later.
    return Ensemble(lambda: next(copies), members, low_memory=description["low_memory"])


_Describe = Callable[[Any], Description]
_Build = Callable[[Description, list[Any]], StochasticClassifier]

_KINDS: dict[type[StochasticClassifier], tuple[_Describe, _Build]] = {
    MAP: (lambda model: {}, lambda _, parts: MAP(parts[0])),
    ConcentrationNetwork: (
        lambda model: {"link": model.link},
        lambda found, parts: ConcentrationNetwork(parts[0], found["link"]),
    ),
    MCDropout: (
        lambda model: {"dropout": describe_dropout(model)},
        lambda found, parts: build_dropout(parts[0], found["dropout"]),
    ),
    Ensemble: (
        lambda model: {**model.settings(), "low_memory": model.low_memory},
        _build_ensemble,
    ),
    MeanField: (
        lambda model: {"skip": _skip(model), "prior_std": model.prior_std},
        lambda found, parts: MeanField(
            parts[0], skip=tuple(found["skip"]), prior_std=found["prior_std"]
        ),
    ),
    Radial: (
        lambda model: {"skip": _skip(model), "prior_std": model.prior_std},
        lambda found, parts: Radial(
            parts[0], skip=tuple(found["skip"]), prior_std=found["prior_std"]
        ),
    ),
    Rank1: (
        lambda model: {
            "skip": _skip(model),
            "prior_std": model.prior_std,
            "members": model.members,
        },
        lambda found, parts: Rank1(
            parts[0], found["members"], skip=tuple(found["skip"]), prior_std=found["prior_std"]
        ),
    ),
    SubnetworkLaplace: (
        lambda model: {"size": len(model.indices)},
        lambda found, parts: SubnetworkLaplace(parts[0], "largest", found["size"]),
    ),
    Tempered: (
        lambda model: {"model": describe_model(model.model)},
        lambda _, parts: Tempered(parts[0], 1.0),
    ),
    TemperedMean: (
        lambda model: {"model": describe_model(model.model), "draws": model.draws},
        lambda found, parts: TemperedMean(parts[0], 1.0, found["draws"]),
    ),
}
