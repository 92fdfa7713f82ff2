"""CIFAR ResNets of He et al. (ResNet-20 to ResNet-110), and a loader for trained weights."""

from __future__ import annotations

import os
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from felbo._container import SavedFileError
from felbo._numbers import refuse_booleans, whole_number
from felbo.errors import SettingError
from felbo.networks.resnet import BasicBlock

# Prefix that DataParallel and DistributedDataParallel add to parameter names.
_WRAPPER = "module."


class PaddedShortcut(nn.Module):
    """Shortcut without parameters: takes every other pixel and pads new channels with zeros.

    Args:
        inputs: channels of x.
        outputs: channels of the result; half of the new ones come before the old ones, half after.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.padding = (outputs - inputs) // 2

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[B, inputs, H, W]`` to ``[B, outputs, H / 2, W / 2]``."""
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.padding, self.padding))


def resnet_cifar(depth: int = 20, classes: int = 10) -> nn.Sequential:
    """Build a CIFAR ResNet of He et al. (2016, "Deep Residual Learning", section 4.2).

    A 3×3 convolution with 16 channels, three stages of n blocks with 16, 32 and 64 channels, where
    ``depth = 6 n + 2``, the average of the last feature maps and a linear layer. Shortcuts have no
    parameters (the paper's option A). Convolutions start from N(0, 2 / fan_out).

    Args:
        depth: layers with weights: 20, 32, 44, 56 or 110 in the paper; 6 n + 2 with n ≥ 1.
        classes: K.

    Example:
        >>> import torch
        >>> resnet_cifar(20)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    classes = whole_number("classes", classes)
    refuse_booleans(depth=depth)
    blocks, rest = divmod(depth - 2, 6)
    if blocks < 1 or rest:
        raise SettingError(
            f"depth must be 6 n + 2 with n of at least 1 (20, 32, 44, …), got {depth}."
        )
    network = nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(3, 16, 3, padding=1, bias=False),
            bn1=nn.BatchNorm2d(16),
            relu=nn.ReLU(),
            layer1=_stage(16, 16, blocks),
            layer2=_stage(16, 32, blocks),
            layer3=_stage(32, 64, blocks),
            avgpool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            linear=nn.Linear(64, classes),
        )
    )
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def load_resnet_cifar(path: str | os.PathLike[str]) -> nn.Sequential:
    """Load a trained CIFAR ResNet; depth and number of classes are read from the weights.

    The file is a checkpoint as published at https://github.com/akamaster/pytorch_resnet_cifar10: a
    dict with the weights under ``"state_dict"``, their names starting with ``module.`` or not. It
    is opened with ``weights_only=True``, so no code in it is executed. Those networks take images
    normalised with mean (0.485, 0.456, 0.406) and standard deviation (0.229, 0.224, 0.225), not
    with the statistics of CIFAR-10.

    Args:
        path: the file.

    Returns:
        The network on the CPU, in evaluation mode.

    Raises:
        ValueError: if the file is no such checkpoint.

    Example:
        >>> network = load_resnet_cifar("resnet20-12fca82f.th")  # doctest: +SKIP
        >>> model = felbo.MAP(network)  # doctest: +SKIP
    """
    weights = _read_weights(path)
    blocks = {name.split(".")[1] for name in weights if name.startswith("layer1.")}
    if "linear.weight" not in weights or not blocks:
        raise SavedFileError(
            f"Expected the weights of a CIFAR ResNet (conv1, bn1, layer1 to layer3, linear) in "
            f"{os.fspath(path)}, got {len(weights)} tensors named {', '.join(list(weights)[:4])}, …"
        )
    network = resnet_cifar(depth=6 * len(blocks) + 2, classes=len(weights["linear.weight"]))
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise SavedFileError(
            f"The weights in {os.fspath(path)} do not fit a CIFAR ResNet of depth "
            f"{6 * len(blocks) + 2} with widths 16, 32 and 64: {error}"
        ) from error
    return network.eval()


def _check_stored(path: str | os.PathLike[str]) -> None:
    """Raise if an archive is compressed or damaged.

    torch compresses nothing, and a small archive could fill the memory. It also reads members
    without a look at their checksums.

    Raises:
        ValueError: names the member.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.compress_type != zipfile.ZIP_STORED:
                    raise ValueError(f"{member.filename} is compressed")
            damaged = archive.testzip()
            if damaged is not None:
                raise ValueError(f"{damaged} does not have its checksum")


def _read_weights(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Read the state dict of a checkpoint and strip the wrapper's prefix from its names."""
    try:
        _check_stored(path)
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged file can fail anywhere, with any exception
        raise SavedFileError(
            f"Expected a checkpoint written by torch.save with nothing but tensors and plain "
            f"values in {os.fspath(path)}; torch could not read it: {error}"
        ) from error
    weights = content.get("state_dict") if isinstance(content, Mapping) else None
    if not isinstance(weights, Mapping):
        found = list(content) if isinstance(content, Mapping) else type(content).__name__
        raise SavedFileError(
            f"Expected a dict with the weights under 'state_dict' in {os.fspath(path)}, "
            f"got {found}."
        )
    return {name.removeprefix(_WRAPPER): value for name, value in weights.items()}


def _stage(inputs: int, outputs: int, blocks: int) -> nn.Sequential:
    first = BasicBlock(inputs, outputs, stride=outputs // inputs)
    if outputs != inputs:
        first.downsample = nn.Sequential(PaddedShortcut(inputs, outputs))
    return nn.Sequential(first, *(BasicBlock(outputs, outputs) for _ in range(blocks - 1)))
