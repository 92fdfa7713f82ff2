"""Describe a network of known layers as JSON, and build it again.

Known are the networks of :mod:`felbo.networks` and every ``nn.Sequential`` of the layers listed
here. A description names layers from this list only, so that building one runs no other code.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from felbo.layers import ActiveDropout, Rank1Layer
from felbo.layers.hooks import has_hooks
from felbo.networks.resnet import BasicBlock
from felbo.networks.resnet_cifar import PaddedShortcut
from felbo.saving.dropout import inserted

Description = dict[str, Any]

_CONVOLUTION = (
    "in_channels",
    "out_channels",
    "kernel_size",
    "stride",
    "padding",
    "dilation",
    "groups",
    "bias",
    "padding_mode",
)
_BATCH_NORM = ("num_features", "eps", "momentum", "affine", "track_running_stats")
_POOL = ("kernel_size", "stride", "padding")

# Arguments of the constructor, each of which is an attribute of the layer too.
LAYERS: dict[type[nn.Module], tuple[str, ...]] = {
    nn.Linear: ("in_features", "out_features", "bias"),
    nn.Conv1d: _CONVOLUTION,
    nn.Conv2d: _CONVOLUTION,
    nn.BatchNorm1d: _BATCH_NORM,
    nn.BatchNorm2d: _BATCH_NORM,
    nn.LayerNorm: ("normalized_shape", "eps", "elementwise_affine", "bias"),
    nn.GroupNorm: ("num_groups", "num_channels", "eps", "affine"),
    nn.MaxPool2d: (*_POOL, "dilation", "ceil_mode"),
    nn.AvgPool2d: (*_POOL, "ceil_mode", "count_include_pad"),
    nn.AdaptiveAvgPool2d: ("output_size",),
    nn.AdaptiveMaxPool2d: ("output_size",),
    nn.Flatten: ("start_dim", "end_dim"),
    nn.Dropout: ("p",),
    nn.Dropout1d: ("p",),
    nn.Dropout2d: ("p",),
    nn.ReLU: (),
    nn.GELU: ("approximate",),
    nn.SiLU: (),
    nn.ELU: ("alpha",),
    nn.LeakyReLU: ("negative_slope",),
    nn.Softplus: ("beta", "threshold"),
    nn.Tanh: (),
    nn.Sigmoid: (),
    nn.Identity: (),
}
_BY_NAME = {kind.__name__: kind for kind in LAYERS}


class UnknownNetworkError(Exception):
    """A network that cannot be described; the message says why."""


def describe(network: nn.Module) -> Description:
    """Return the layers of a network as plain dicts and lists, without their weights.

    Layers that a model has converted are described as what they were made from.

    Raises:
        UnknownNetworkError: if anything in it is not known.

    Example:
        >>> describe(nn.Sequential(nn.Linear(2, 3)))
        {'layer': 'Sequential', 'parts': [['0', {'layer': 'Linear', 'arguments': {'in_features': 2,
        'out_features': 3, 'bias': True}}]]}
    """
    paths = [module for _, module in network.named_modules(remove_duplicate=False)]
    tensors = [tensor for _, tensor in network.named_parameters(remove_duplicate=False)]
    if len(set(paths)) < len(paths) or len({id(tensor) for tensor in tensors}) < len(tensors):
        raise UnknownNetworkError("parts of it share their weights")
    return _described(network)


def build(description: Description) -> nn.Module:
    """Return the network of a description, with new weights."""
    kind = description["layer"]
    if kind == "Sequential":
        network = nn.Sequential()
        for name, part in description["parts"]:
            network.add_module(name, build(part))
        return network
    if kind == "BasicBlock":
        block = BasicBlock(*(int(size) for size in description["sizes"]))
        shortcut = build(description["shortcut"])
        if not isinstance(shortcut, nn.Sequential):
            raise TypeError("a shortcut must be a Sequential")
        block.downsample = shortcut
        return block
    if kind == "PaddedShortcut":
        return PaddedShortcut(0, 2 * int(description["padding"]))
    known = LAYERS[_BY_NAME[kind]]
    # Others, such as a device, are not for a file to choose.
    arguments = {name: _tupled(description["arguments"][name]) for name in known}
    return _BY_NAME[kind](**arguments)


def _described(module: nn.Module) -> Description:
    if isinstance(module, Rank1Layer):
        layer = _described(module.shared)
        layer["arguments"]["bias"] = module.bias is not None
        return layer
    if isinstance(module, ActiveDropout):
        kind = nn.Dropout2d if module.whole_maps else nn.Dropout
        return {"layer": kind.__name__, "arguments": {"p": module.rate}}
    if has_foreign_hooks(module):
        raise UnknownNetworkError(f"a {type(module).__name__} in it has hooks")
    if type(module) is nn.Sequential:
        parts = [[name, _described(part)] for name, part in module.named_children()]
        return {"layer": "Sequential", "parts": parts}
    if type(module) is BasicBlock:
        conv = _described(module.conv1)["arguments"]
        sizes = [conv["in_channels"], conv["out_channels"], conv["stride"][0]]
        return {
            "layer": "BasicBlock",
            "sizes": sizes,
            "shortcut": _described(module.downsample),
        }
    if type(module) is PaddedShortcut:
        return {"layer": "PaddedShortcut", "padding": module.padding}
    names = LAYERS.get(type(module))
    if names is None:
        raise UnknownNetworkError(f"it has a part of type {type(module).__name__}")
    return {
        "layer": type(module).__name__,
        "arguments": {name: _argument(module, name) for name in names},
    }


def has_foreign_hooks(module: nn.Module) -> bool:
    """Return True for hooks other than those of MC Dropout, which the model adds again."""
    return has_hooks(module) and inserted(module) is None


def _argument(module: nn.Module, name: str) -> Any:
    value = vars(module).get(name) if name != "bias" else module.bias is not None
    return list(value) if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
