"""CIFAR ResNets: published sizes, arithmetic, and files that somebody else trained."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from felbo.data import REGISTRY, load, normalize
from felbo.networks import load_resnet_cifar, mlp, resnet_cifar
from felbo.networks.resnet_cifar import PaddedShortcut


@pytest.mark.parametrize(
    ("depth", "millions"), [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)]
)
def test_parameter_count_is_that_of_the_paper(depth, millions):
    # Table 6 of He et al., 2016.
    counted = sum(p.numel() for p in resnet_cifar(depth).parameters()) / 1e6
    assert counted == pytest.approx(millions, abs=0.05 if millions > 1 else 0.005)


def test_depth_counts_the_layers_with_weights():
    layers = [m for m in resnet_cifar(32).modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) == 32


def test_shortcut_keeps_every_other_pixel_between_zero_channels():
    x = torch.arange(1.0, 2 * 4 * 4 * 4 + 1).view(2, 4, 4, 4)
    out = PaddedShortcut(4, 8)(x)
    assert out.shape == (2, 8, 2, 2)
    assert not out[:, [0, 1, 6, 7]].any()
    for i in range(2):
        for j in range(2):
            assert torch.equal(out[:, 2:6, i, j], x[:, :, 2 * i, 2 * j])


def test_network_computes_its_formula():
    network = resnet_cifar(8, 5).double().eval()
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)

    def norm(h, bn):  # fresh statistics: mean 0, variance 1
        return h / (1 + bn.eps) ** 0.5

    h = norm(F.conv2d(x, network.conv1.weight, padding=1), network.bn1).relu()
    for stage in (network.layer1, network.layer2, network.layer3):
        (block,) = stage
        stride = 1 if stage is network.layer1 else 2
        around = h
        if stride == 2:
            old = h[:, :, ::2, ::2]
            new = torch.zeros_like(old[:, : old.shape[1] // 2])
            around = torch.cat([new, old, new], dim=1)
        h = norm(F.conv2d(h, block.conv1.weight, stride=stride, padding=1), block.bn1).relu()
        h = norm(F.conv2d(h, block.conv2.weight, padding=1), block.bn2)
        h = (h + around).relu()
    expected = h.mean((-2, -1)) @ network.linear.weight.T + network.linear.bias
    torch.testing.assert_close(network(x), expected)


@pytest.mark.parametrize("depth", [2, 18, 21, -4])
def test_impossible_depth_is_refused(depth):
    with pytest.raises(ValueError, match=f"6 n \\+ 2.*got {depth}"):
        resnet_cifar(depth)


def test_no_classes_are_refused():
    with pytest.raises(ValueError, match=r"classes.*0"):
        resnet_cifar(20, 0)


@pytest.mark.parametrize("prefix", ["module.", ""])
def test_a_checkpoint_comes_back_as_the_same_function(prefix, tmp_path):
    trained = resnet_cifar(14, 7)
    trained(torch.randn(8, 3, 32, 32))  # gives batch normalisation statistics of its own
    weights = {
        prefix + name: value
        for name, value in trained.state_dict().items()
        if not name.endswith("num_batches_tracked")  # which the published files do not have
    }
    torch.save({"state_dict": weights, "best_prec1": 90.0}, tmp_path / "net.th")
    loaded = load_resnet_cifar(tmp_path / "net.th")
    x = torch.randn(4, 3, 32, 32)
    assert not loaded.training
    assert torch.equal(loaded(x), trained.eval()(x))


def test_files_that_are_no_checkpoint_are_refused(tmp_path):
    path = tmp_path / "net.th"
    with pytest.raises(FileNotFoundError):
        load_resnet_cifar(path)
    for content in (b"", b"not a checkpoint", b"\x80\x02K\x01."):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"net\.th"):
            load_resnet_cifar(path)
    torch.save(resnet_cifar(8), path)  # a pickled object, which could run code
    with pytest.raises(ValueError, match=r"nothing but tensors.*net\.th"):
        load_resnet_cifar(path)


def test_checkpoints_of_other_networks_are_refused(tmp_path):
    path = tmp_path / "net.th"
    torch.save([1, 2], path)
    with pytest.raises(ValueError, match=r"'state_dict'.*got list"):
        load_resnet_cifar(path)
    torch.save({"model": {}}, path)
    with pytest.raises(ValueError, match=r"'state_dict'.*got \['model'\]"):
        load_resnet_cifar(path)
    torch.save({"state_dict": mlp(2, (3,), 2).state_dict()}, path)
    with pytest.raises(ValueError, match=r"CIFAR ResNet.*1\.weight"):
        load_resnet_cifar(path)
    weights = resnet_cifar(14).state_dict()
    del weights["layer3.1.conv2.weight"]
    torch.save({"state_dict": weights}, path)
    with pytest.raises(ValueError, match=r"depth 14(.|\n)*layer3\.1\.conv2\.weight"):
        load_resnet_cifar(path)


def test_trained_file_reaches_its_published_accuracy():
    named = os.environ.get("FELBO_TRAINED")
    if not named:
        pytest.skip("set FELBO_TRAINED to a file of akamaster/pytorch_resnet_cifar10")
    info = REGISTRY["cifar10"]
    root = Path(os.environ.get("FELBO_DATA", ""))
    if not (root / info.folder / "test_batch").is_file():
        pytest.skip("set FELBO_DATA to a folder with CIFAR-10, or run `felbo data fetch cifar10`")
    test = load("cifar10", "test", root=root, download=False)
    images = normalize(test.images[:2000], (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    network = load_resnet_cifar(named)
    with torch.no_grad():
        found = torch.cat([network(batch).argmax(-1) for batch in images.split(250)])
    accuracy = (found == test.labels[:2000]).double().mean().item()
    # 91.7 to 93.4 % on all 10,000; 2,000 of them have a standard error of 0.6 %.
    assert 0.90 < accuracy < 0.952
