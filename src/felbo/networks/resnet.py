"""ResNet-18 for small images."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn
from torch.nn import functional as F

from felbo._numbers import whole_number


class BasicBlock(nn.Module):
    """Residual block of two 3×3 convolutions: ``relu(x' + bn(conv(relu(bn(conv(x))))))``.

    x' is x itself, or a 1×1 convolution of it (``downsample``) where the shape changes.

    Args:
        inputs: channels of x.
        outputs: channels of the result.
        stride: of the first convolution and of the shortcut.
    """

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.downsample.append(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False))
            self.downsample.append(nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[B, inputs, H, W]`` to ``[B, outputs, H / stride, W / stride]``."""
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out)) + self.downsample(x)
        return F.relu(out)


def resnet18(classes: int, *, width: int = 64, channels: int = 3) -> nn.Sequential:
    """Build the ResNet-18 for 32×32 images: 3×3 stem with stride 1, no max-pooling.

    Four stages of two blocks with ``width``, 2, 4 and 8 times ``width`` channels; any image of at
    least 1×1 pixels works, the last feature maps being averaged. Convolutions start from
    N(0, 2 / fan_out) (He et al., 2015, "Delving Deep into Rectifiers"), batch normalisation from
    the identity, and the last layer from torch's default.

    Args:
        classes: K.
        width: channels of the stem; 64 is the usual network with 11 million parameters.
        channels: channels of the images.

    Example:
        >>> import torch
        >>> resnet18(10, width=4)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    classes, width = whole_number("classes", classes), whole_number("width", width)
    channels = whole_number("channels", channels)
    network = nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, width, 3, padding=1, bias=False),
            bn1=nn.BatchNorm2d(width),
            relu=nn.ReLU(),
            layer1=_stage(width, width, stride=1),
            layer2=_stage(width, 2 * width, stride=2),
            layer3=_stage(2 * width, 4 * width, stride=2),
            layer4=_stage(4 * width, 8 * width, stride=2),
            avgpool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            fc=nn.Linear(8 * width, classes),
        )
    )
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def _stage(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs))
