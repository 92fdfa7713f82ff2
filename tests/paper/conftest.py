"""Where the tests of the studies find MNIST, and a small stand-in for CIFAR."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pooch
import pytest

from felbo.data import REGISTRY
from felbo.data.registry import DataFile
from felbo.paper import cifar, corrupted_cifar

from ..data.stand_ins import cifar_bytes, lay_out, md5

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture
def mnist_root(monkeypatch):
    """A root that has the MNIST files, set as FELBO_DATA; skips where there is none."""
    named = [Path(os.environ["FELBO_DATA"])] if os.environ.get("FELBO_DATA") else []
    roots = [*named, SHARED, Path(pooch.os_cache("felbo"))]
    info = REGISTRY["mnist"]
    files = [file.name for split in ("train", "test") for file in info.split_files(split)]
    for root in roots:
        if all((root / info.folder / name).is_file() for name in files):
            monkeypatch.setenv("FELBO_DATA", str(root))
            return root
    looked_in = ", ".join(map(str, roots))
    pytest.skip(f"MNIST is in none of {looked_in}; set FELBO_DATA or run `felbo data fetch mnist`")


@pytest.fixture
def fake_cifar(monkeypatch, tmp_path):
    """A root with 300 training and 70 test images of both data sets, set as FELBO_DATA."""
    root = tmp_path / "data"
    random = np.random.default_rng(0)
    for name, classes in (("cifar10", 10), ("cifar100", 100)):
        key = "labels" if name == "cifar10" else "fine_labels"
        contents, splits = {}, {}
        for split, count in (("train", 300), ("test", 70)):
            pixels = random.integers(256, size=(count, 3072), dtype=np.uint8)
            labels = random.integers(classes, size=count).tolist()
            contents[split] = cifar_bytes(pixels, labels, key)
            splits[split] = (DataFile(split, md5(contents[split])),)
        info = dataclasses.replace(
            REGISTRY[name], **splits, extra=(), num_train=300, num_test=70, mirrors=()
        )
        monkeypatch.setitem(REGISTRY, name, info)
        lay_out(root, info, contents)
    monkeypatch.setenv("FELBO_DATA", str(root))
    cached = (cifar.training_data, corrupted_cifar.test_data)
    for function in cached:
        function.cache_clear()
    yield root
    for function in cached:
        function.cache_clear()
