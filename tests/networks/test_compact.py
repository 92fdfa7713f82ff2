"""The compact network: size, arithmetic, and that every model kind takes it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from felbo.models import MAP, Ensemble, MCDropout, MeanField, Radial, Rank1
from felbo.networks import compact


def test_parameter_count_is_that_of_the_layers():
    w = 32
    stem = 3 * 4 * w + w
    convolutions = 9 * (w * w + w * w + w * 4 * w + 16 * w * w + 16 * w * w + 16 * w * w)
    norms = 2 * (2 * w + 2 * 4 * w + 2 * 4 * w)
    head = 4 * w * 10 + 10
    counted = sum(p.numel() for p in compact(10).parameters())
    assert counted == stem + convolutions + norms + head == 500_522


def test_images_are_halved_before_the_second_convolution():
    network = compact(10, width=2)
    sizes = []
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(
                lambda _m, _i, out, name=name: sizes.append((name, *out.shape[1:3]))
            )
    network(torch.zeros(2, 3, 32, 32))
    assert sizes == [
        ("stem.0", 2, 31),
        ("block1.conv1", 2, 31),
        ("block1.conv2", 2, 15),
        ("block2.conv1", 8, 15),
        ("block2.conv2", 8, 7),
        ("block3.conv1", 8, 7),
        ("block3.conv2", 8, 3),
    ]


def test_network_computes_its_formula():
    network = compact(5, width=2).double().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.uniform_(module.weight)
            nn.init.uniform_(module.bias)
    x = torch.randn(3, 3, 32, 32, dtype=torch.float64)

    def norm(h, bn):
        shape = (-1, 1, 1)
        scaled = (h - bn.running_mean.view(shape)) / (bn.running_var.view(shape) + bn.eps).sqrt()
        return scaled * bn.weight.view(shape) + bn.bias.view(shape)

    def gelu(h):
        return h * torch.special.ndtr(h)

    stem = network.stem[0]
    h = gelu(F.conv2d(x, stem.weight, stem.bias))
    for block in (network.block1, network.block2, network.block3):
        h = F.max_pool2d(F.conv2d(h, block.conv1.weight, padding=1), 2)
        h = gelu(norm(h, block.bn1))
        h = gelu(norm(F.conv2d(h, block.conv2.weight, padding=1), block.bn2))
    expected = h.amax((-2, -1)) @ network.fc.weight.T + network.fc.bias
    torch.testing.assert_close(network(x), expected)


def test_channels_last_gives_the_same_logits():
    network = compact(10, width=4).eval()
    x = torch.randn(4, 3, 32, 32)
    expected = network(x)
    network.to(memory_format=torch.channels_last)
    found = network(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 9), (3, 64)])
def test_other_images_work(channels, size):
    assert compact(4, width=2, channels=channels)(torch.zeros(2, channels, size, size)).shape == (
        2,
        4,
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: MAP(compact(10, width=2)),
        lambda: MCDropout(compact(10, width=2)),
        lambda: Ensemble(lambda: compact(10, width=2), 2),
        lambda: MeanField(compact(10, width=2)),
        lambda: Radial(compact(10, width=2)),
        lambda: Rank1(compact(10, width=2), 2),
    ],
)
def test_every_kind_of_model_takes_it(make):
    model = make()
    logits = model(torch.randn(4, 3, 32, 32))
    logits.square().sum().backward()
    assert logits.shape[1:] == (4, 10)
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("sizes", [{"classes": 0}, {"width": 0}, {"channels": 0}])
def test_empty_network_is_refused(sizes):
    with pytest.raises(ValueError, match="at least 1"):
        compact(**{"classes": 10, **sizes})
