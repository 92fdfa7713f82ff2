"""Describe the dropout of an MC Dropout model as JSON, and build it again."""

from __future__ import annotations

from typing import Any

from torch import nn

from felbo.layers import ActiveDropout
from felbo.models import MCDropout
from felbo.models.dropout import dropping_inside

# Layers before which dropout is inserted.
_BEFORE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.MultiheadAttention)


def inserted(layer: nn.Module) -> ActiveDropout | None:
    """Return the dropout that a model has put before a layer, if there is one."""
    # Modules have no public list of their hooks; the handle of a new hook refers to that list.
    handle = layer.register_forward_pre_hook(lambda *_: None)
    hooks = list((handle.hooks_dict_ref() or {}).values())
    handle.remove()
    found = [
        part
        for hook in hooks
        if hasattr(hook, "dropout")
        for part in vars(hook).values()
        if isinstance(part, ActiveDropout)
    ]
    return found[0] if found else None


def describe_dropout(model: MCDropout) -> dict[str, Any]:
    """Return rates, masks and places of the dropout in a model.

    - ``inserted``: rate before the layers of a network that had no dropout, or ``None``;
    - ``skip``: layers before which none was inserted;
    - ``layers``, ``inside``: rates of the network's own dropout by name;
    - ``mask``: whether the items of a batch share their mask.
    """
    modules = dict(model.network.named_modules())
    before = {name: inserted(module) for name, module in modules.items()}
    active = [dropout for dropout in before.values() if dropout is not None]
    layers = {n: m for n, m in modules.items() if isinstance(m, ActiveDropout)}
    active += list(layers.values())
    none = [name for name, module in modules.items() if isinstance(module, _BEFORE)]
    skip = [name for name in none if before[name] is None and name not in model.without_dropout]
    return {
        "inserted": None if layers or not active else active[0].rate,
        "skip": [] if layers or not active else skip,
        "layers": {name: module.rate for name, module in layers.items()},
        "inside": {n: float(getattr(*p)) for n, p in dropping_inside(model.network).items()},
        "mask": active[0].mask if active else "item",
    }


def build_dropout(network: nn.Module, described: dict[str, Any]) -> MCDropout:
    """Return a model of MC Dropout around a network, with the dropout as it was described."""
    mask = described["mask"]
    if described["inserted"] is not None:
        return MCDropout(network, described["inserted"], skip=tuple(described["skip"]), mask=mask)
    rates = {**described["layers"], **described["inside"]}
    model = MCDropout(network, max(rates.values()), mask=mask)
    inside = dropping_inside(model.network)
    for name, rate in rates.items():
        part = model.network.get_submodule(name)
        if isinstance(part, ActiveDropout):
            part.rate = rate
        elif name in inside:
            setattr(*inside[name], rate)
    return model
