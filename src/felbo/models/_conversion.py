"""Select and replace the layers of a network whose weights become random."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from torch import nn
from torch.nn.parameter import is_lazy

from felbo.errors import InputTypeError, SettingError
from felbo.layers import Rank1Layer, StackedLinear

WEIGHT_LAYERS: tuple[type[nn.Module], ...] = (nn.Linear, nn.Conv1d, nn.Conv2d)
_WEIGHTS = {"weight", "in_proj_weight", "q_proj_weight"}


def selected_layers(
    network: nn.Module,
    kinds: tuple[type[nn.Module], ...],
    skip: Sequence[str],
    *,
    called: bool = False,
) -> dict[str, nn.Module]:
    """Return the layers of the given types by dotted name, in the order of ``named_modules``.

    A layer that the network holds under several names appears once, under the first. A layer
    whose ``weight`` is computed from something else (weight or spectral normalisation) is not
    selected, since it has no weight of its own to replace.

    Args:
        network: searched recursively. If it is itself a layer, its name is ``""``.
        kinds: layer types; subclasses count.
        skip: names of layers, or of modules that hold layers, to leave out.
        called: only layers that the network calls as modules. ``nn.MultiheadAttention`` never calls
            its ``out_proj``, but reads the weight from it.

    Raises:
        TypeError: if ``skip`` is a single string.
        ValueError: if a name in ``skip`` does not exist, a layer has no shape yet, or nothing is
            left to select.
    """
    uncalled = _parts_of_attention(network) if called else set()
    found = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, kinds) and module not in uncalled and _owns_weight(module)
    }
    _check_skip(network, found, skip)
    selected = {
        name: layer
        for name, layer in found.items()
        if not any(_is_within(name, skipped) for skipped in skip)
    }
    if not selected:
        expected = ", ".join(kind.__name__ for kind in kinds)
        raise SettingError(
            f"Nothing to convert in {type(network).__name__}: expected at least one layer of type "
            f"{expected}, found {_listed(found)} and was told to skip {_listed(skip)}."
        )
    for name, layer in selected.items():
        if any(is_lazy(parameter) for parameter in layer.parameters(recurse=False)):
            raise SettingError(
                f"Layer {name!r} is lazy and has no shape yet: run one batch through the network "
                "before it is converted."
            )
    return selected


def unselected_modules(network: nn.Module, selected: Collection[str]) -> tuple[str, ...]:
    """Return the names of modules that directly own parameters and were not selected."""
    return tuple(
        name
        for name, module in network.named_modules()
        if name not in selected and next(module.parameters(recurse=False), None) is not None
    )


def replace_layers(
    network: nn.Module, layers: dict[str, nn.Module], make: Callable[[nn.Module], nn.Module]
) -> nn.Module:
    """Replace each layer by ``make(layer)``, under every name that the network has for it.

    The network is changed in place and returned, or ``make(network)`` if it is itself a layer.
    """
    made = {layer: make(layer) for layer in layers.values()}
    # Inner modules first, while their paths are still valid.
    for path, module in reversed(list(network.named_modules(remove_duplicate=False))):
        if module in made and path:
            parent, _, name = path.rpartition(".")
            setattr(network.get_submodule(parent), name, made[module])
    return made.get(network, network)


def last_layer(network: nn.Module) -> tuple[str, nn.Module]:
    """Return the linear or convolutional layer that was registered last, with its name."""
    kinds: tuple[type[nn.Module], ...] = (*WEIGHT_LAYERS, StackedLinear, Rank1Layer)
    # A rank-1 layer contains the plain layer that its members share; both count as one layer.
    inner = {
        part
        for outer in network.modules()
        if isinstance(outer, Rank1Layer)
        for part in outer.modules()
        if part is not outer
    }
    found = {
        name: part
        for name, part in network.named_modules()
        if isinstance(part, kinds) and part not in inner
    }
    if not found:
        raise SettingError(
            f"{type(network).__name__} has no linear or convolutional layer, and so no last one; "
            "choose all weights instead."
        )
    return list(found.items())[-1]


def check_batch_first(network: nn.Module, what: str) -> None:
    """Raise if an attention layer expects ``[T, B, D]``; ``what`` needs the batch axis first."""
    for name, layer in network.named_modules():
        if isinstance(layer, nn.MultiheadAttention) and not layer.batch_first:
            raise SettingError(
                f"{what} needs the batch as the first axis, but {name!r} has batch_first=False: "
                "build it with batch_first=True."
            )


def _check_skip(network: nn.Module, found: Collection[str], skip: Sequence[str]) -> None:
    if isinstance(skip, str):
        raise InputTypeError(
            f"skip takes a sequence of names, got the string {skip!r}: use ({skip!r},)."
        )
    known = {name for name, _ in network.named_modules(remove_duplicate=False)}
    unknown = [name for name in skip if name not in known]
    if unknown:
        holders = [name for name in known if name and any(_is_within(f, name) for f in found)]
        raise SettingError(
            f"skip names {_listed(unknown)}, which {type(network).__name__} does not have. "
            f"Modules that hold layers to convert: {_listed(sorted(holders))}."
        )


def _parts_of_attention(network: nn.Module) -> set[nn.Module]:
    attentions = [m for m in network.modules() if isinstance(m, nn.MultiheadAttention)]
    return {part for attention in attentions for part in attention.modules() if part != attention}


def _owns_weight(module: nn.Module) -> bool:
    return any(name in _WEIGHTS for name, _ in module.named_parameters(recurse=False))


def _is_within(name: str, ancestor: str) -> bool:
    return ancestor in ("", name) or name.startswith(ancestor + ".")


def _listed(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
