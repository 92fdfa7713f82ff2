import pickle
import re

import pytest

from felbo.data import NAMES, REGISTRY, dataset_info
from felbo.data.registry import CIFAR10_INFO, CIFAR100_INFO, FASHION_MNIST_INFO, MNIST_INFO


def test_names_are_those_of_the_registry():
    assert NAMES == ("mnist", "fashion-mnist", "cifar10", "cifar100") == tuple(REGISTRY)


@pytest.mark.parametrize("name", NAMES)
def test_entries_are_consistent(name):
    info = REGISTRY[name]
    assert info.name == name
    assert len(info.mean) == len(info.std) == info.image_shape[0]
    assert len(set(info.class_names)) == len(info.class_names) in (10, 100)
    hashes = [file.md5 for file in info.files]
    assert len(set(hashes)) == len(hashes)
    assert all(re.fullmatch("[0-9a-f]{32}", md5) for md5 in hashes)
    assert all(mirror.endswith("/") for mirror in info.mirrors)


@pytest.mark.parametrize(
    "info",
    [MNIST_INFO, FASHION_MNIST_INFO, CIFAR10_INFO, CIFAR100_INFO],
    ids=lambda info: info.name,
)
def test_mirrors_are_asked_over_https(info):
    assert info.mirrors
    assert all(mirror.startswith("https://") for mirror in info.mirrors)


@pytest.mark.parametrize(
    ("name", "meta", "key"),
    [("cifar10", "batches.meta", b"label_names"), ("cifar100", "meta", b"fine_label_names")],
)
def test_cifar_class_names_are_those_of_the_published_meta_file(name, meta, key, published):
    folder = published(name, "test") / REGISTRY[name].folder
    if not (folder / meta).is_file():
        pytest.skip(f"needs {folder / meta}; set FELBO_DATA to a folder that has it")
    names = pickle.loads((folder / meta).read_bytes(), encoding="bytes")[key]
    assert tuple(name.decode() for name in names) == REGISTRY[name].class_names


def test_a_nearly_right_name_gets_a_hint():
    with pytest.raises(ValueError, match=r"mnist, fashion-mnist.*'CIFAR-10'.*mean 'cifar10'\?"):
        dataset_info("CIFAR-10")
