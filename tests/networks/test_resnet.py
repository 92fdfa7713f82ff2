"""ResNet-18: size, names, arithmetic and starting values."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from felbo.networks import resnet18


def test_parameter_count_is_the_published_one():
    assert sum(p.numel() for p in resnet18(10).parameters()) == 11_173_962


def test_children_have_the_classic_names():
    names = [name for name, _ in resnet18(10, width=1).named_children()]
    with_weights = [name for name in names if name not in ("relu", "avgpool", "flatten")]
    assert with_weights == ["conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc"]


@pytest.mark.parametrize("size", [8, 32])
def test_feature_maps_shrink_by_two_from_the_second_stage(size):
    network = resnet18(10, width=2)
    sizes = []
    for stage in (network.conv1, network.layer1, network.layer2, network.layer3, network.layer4):
        stage.register_forward_hook(lambda _m, _i, out: sizes.append(tuple(out.shape[1:])))
    network(torch.zeros(2, 3, size, size))
    expected = [(2, size), (2, size), (4, size // 2), (8, size // 4), (16, size // 8)]
    assert sizes == [(c, s, s) for c, s in expected]


def test_block_computes_its_formula():
    torch.manual_seed(0)
    block = resnet18(10, width=2).layer2[0].eval()
    for module in block.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.uniform_(module.weight)
            nn.init.uniform_(module.bias)
    x = torch.randn(3, 2, 8, 8)

    def norm(h, bn):
        scaled = (h - bn.running_mean[:, None, None]) / (bn.running_var + bn.eps).sqrt()[
            :, None, None
        ]
        return scaled * bn.weight[:, None, None] + bn.bias[:, None, None]

    h = norm(F.conv2d(x, block.conv1.weight, stride=2, padding=1), block.bn1).clamp(min=0)
    h = norm(F.conv2d(h, block.conv2.weight, padding=1), block.bn2)
    around = norm(F.conv2d(x, block.downsample[0].weight, stride=2), block.downsample[1])
    torch.testing.assert_close(block(x), (h + around).clamp(min=0), rtol=1e-4, atol=1e-5)


def test_convolutions_start_with_the_variance_of_he():
    torch.manual_seed(0)
    weight = resnet18(10).layer3[0].conv1.weight  # 128 channels to 256
    z = weight / (2 / (256 * 9)) ** 0.5
    n = weight.numel()
    assert abs(z.mean()) < 4 / n**0.5
    assert abs(z.square().mean() - 1) < 4 * (2 / n) ** 0.5


@pytest.mark.parametrize("sizes", [{"classes": 0}, {"width": 0}, {"channels": 0}])
def test_empty_network_is_refused(sizes):
    with pytest.raises(ValueError, match="at least 1"):
        resnet18(**{"classes": 10, **sizes})
