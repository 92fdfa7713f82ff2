"""Where the tests find published files, and small stand-ins for them where they need none."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pooch
import pytest

from felbo.data import REGISTRY, DatasetInfo
from felbo.data.registry import OTHER_SOURCES, DataFile, Split

from .stand_ins import cifar_bytes, idx_bytes, lay_out, md5, png_bytes

REPOSITORY = Path(__file__).resolve().parents[2]


def published_roots() -> list[Path]:
    """The roots to look in, in order: FELBO_DATA, data shared beside the repository, the cache."""
    named = [Path(os.environ["FELBO_DATA"])] if os.environ.get("FELBO_DATA") else []
    return [*named, REPOSITORY.parent / "shared" / "data", Path(pooch.os_cache("felbo"))]


# Read at import, since `no_network` hides the environment from the tests themselves.
ROOTS = published_roots()


@pytest.fixture
def published() -> Callable[[str, Split], Path]:
    """A function from (name, split) to a root that has its files; skips where there is none."""

    def find(name: str, split: Split) -> Path:
        info = REGISTRY[name]
        names = [file.name for file in info.split_files(split)]
        for root in ROOTS:
            if all((root / info.folder / name).is_file() for name in names):
                return root
        looked_in = ", ".join(map(str, ROOTS))
        pytest.skip(
            f"needs {info.folder}/{{{','.join(names)}}}, which is in none of {looked_in}; "
            f"set FELBO_DATA or run `felbo data fetch {name}`"
        )

    return find


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep tests off the network and out of the user's folders."""
    for name, info in list(REGISTRY.items()):
        # Port 9 (discard) is closed on every sane machine, so a stray download fails at once.
        monkeypatch.setitem(
            REGISTRY, name, dataclasses.replace(info, mirrors=("http://127.0.0.1:9/",))
        )
    for name, source in list(OTHER_SOURCES.items()):
        offline = dataclasses.replace(source, mirrors=("http://127.0.0.1:9/",))
        monkeypatch.setitem(OTHER_SOURCES, name, offline)
    monkeypatch.setenv("FELBO_DATA", str(tmp_path / "data"))


@pytest.fixture
def tiny_mnist(monkeypatch: pytest.MonkeyPatch) -> tuple[DatasetInfo, dict[str, bytes]]:
    """The registry's MNIST replaced by six training and three test images, with their files."""
    contents: dict[str, bytes] = {}
    splits: dict[str, tuple[DataFile, ...]] = {}
    for split, prefix, count in (("train", "train", 6), ("test", "t10k", 3)):
        images = np.arange(count * 28 * 28).reshape(count, 28, 28) % 251
        arrays = {"images-idx3": images, "labels-idx1": np.arange(count) % 10}
        for kind, array in arrays.items():
            contents[f"{prefix}-{kind}-ubyte.gz"] = idx_bytes(array)
        splits[split] = tuple(
            DataFile(file, md5(contents[file])) for file in contents if file.startswith(prefix)
        )
    info = dataclasses.replace(
        REGISTRY["mnist"], train=splits["train"], test=splits["test"], num_train=6, num_test=3
    )
    monkeypatch.setitem(REGISTRY, "mnist", info)
    return info, contents


@pytest.fixture
def tiny_cifar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A root with twelve test images of CIFAR-10 and six small textures of frost."""
    root = tmp_path / "tiny"
    random = np.random.default_rng(0)
    batch = cifar_bytes(
        random.integers(256, size=(12, 3072), dtype=np.uint8), [n % 10 for n in range(12)]
    )
    info = dataclasses.replace(
        REGISTRY["cifar10"], test=(DataFile("test_batch", md5(batch)),), num_test=12
    )
    monkeypatch.setitem(REGISTRY, "cifar10", info)
    lay_out(root, info, {"test_batch": batch})
    textures = {
        f"frost{n}.png": png_bytes(random.integers(256, size=(170, 200, 3), dtype=np.uint8))
        for n in range(6)
    }
    files = tuple(DataFile(file, md5(content)) for file, content in textures.items())
    frost = dataclasses.replace(OTHER_SOURCES["frost"], extra=files)
    monkeypatch.setitem(OTHER_SOURCES, "frost", frost)
    lay_out(root, frost, textures)
    return root
