import numpy as np
import pytest
import torch

from felbo.data import REGISTRY, CorruptDataError, MissingDataError, load

from .stand_ins import lay_out


def test_images_labels_and_names_come_out_as_they_went_in(tiny_mnist, tmp_path):
    info, contents = tiny_mnist
    lay_out(tmp_path, info, contents)
    train = load("mnist", "train", tmp_path)
    expected = (torch.arange(6 * 28 * 28) % 251).to(torch.uint8).view(6, 1, 28, 28)
    assert torch.equal(train.images, expected)
    assert torch.equal(train.labels, torch.arange(6))
    assert train.labels.dtype == torch.int64
    assert train.class_names == tuple("0123456789")


def test_the_environment_names_the_default_root(tiny_mnist, tmp_path, monkeypatch):
    info, contents = tiny_mnist
    lay_out(tmp_path / "elsewhere", info, contents)
    monkeypatch.setenv("FELBO_DATA", str(tmp_path / "elsewhere"))
    assert load("mnist", "test").labels.tolist() == [0, 1, 2]


def test_a_missing_file_offline_says_what_where_and_how(tmp_path):
    with pytest.raises(MissingDataError) as caught:
        load("mnist", "test", tmp_path)
    message = str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)
    for part in (
        "t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz",
        str(tmp_path / "mnist"),
        "FELBO_DATA",
        f"`felbo data fetch mnist --root {tmp_path}`",
        "http://127.0.0.1:9/train-images-idx3-ubyte.gz: no connection",
    ):
        assert part in message


def test_download_false_asks_no_mirror(tmp_path):
    with pytest.raises(MissingDataError, match=r"download=False") as caught:
        load("cifar100", "train", tmp_path, download=False)
    assert "127.0.0.1" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_root_that_cannot_be_written_to_is_a_missing_file_too(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(MissingDataError, match=r"Not downloaded: .*Not a directory"):
        load("mnist", "test", tmp_path / "file")


@pytest.mark.parametrize("change", ["truncated", "flipped"])
def test_a_bad_file_says_what_was_expected_what_came_and_how_to_mend_it(
    change, tiny_mnist, tmp_path, monkeypatch
):
    monkeypatch.setenv("FELBO_DATA", str(tmp_path))
    info, contents = tiny_mnist
    name = "t10k-images-idx3-ubyte.gz"
    good = contents[name]
    bad = good[:-9] if change == "truncated" else good[:50] + bytes([good[50] ^ 1]) + good[51:]
    lay_out(tmp_path, info, {**contents, name: bad})
    with pytest.raises(CorruptDataError) as caught:
        load("mnist", "test")
    for part in (
        str(tmp_path / "mnist" / name),
        f"expected md5 {info.test[0].md5}",
        f"({len(bad):,} bytes)",
        "`felbo data fetch mnist`",
    ):
        assert part in str(caught.value)


def test_another_number_of_images_than_registered_is_refused(tiny_mnist, tmp_path, monkeypatch):
    info, contents = tiny_mnist
    lay_out(tmp_path, info, contents)
    object.__setattr__(info, "num_test", 4)
    with pytest.raises(CorruptDataError, match=r"\(4, 1, 28, 28\).*\(3, 1, 28, 28\)"):
        load("mnist", "test", tmp_path)


def test_unknown_names_and_splits_are_refused():
    with pytest.raises(ValueError, match="'validation'"):
        load("mnist", "validation")
    with pytest.raises(ValueError, match="'imagenet'"):
        load("imagenet")


# Sum of all pixels and first labels, read from the published files with numpy and pickle alone.
PUBLISHED = {
    ("mnist", "train"): (1_567_298_545, [5, 0, 4, 1, 9]),
    ("mnist", "test"): (264_923_200, [7, 2, 1, 0, 4]),
    ("fashion-mnist", "train"): (3_431_114_169, [9, 0, 0, 3, 0]),
    ("fashion-mnist", "test"): (573_469_082, [9, 2, 1, 1, 6]),
    ("cifar10", "train"): (18_540_682_003, [6, 9, 9, 4, 1]),
    ("cifar10", "test"): (3_733_375_634, [3, 8, 8, 0, 6]),
    ("cifar100", "test"): (3_755_249_331, [49, 33, 72, 51, 71]),
}


@pytest.mark.parametrize(("name", "split"), list(PUBLISHED))
def test_published_files_have_the_published_content(name, split, published):
    data = load(name, split, published(name, split), download=False)
    pixel_sum, first_labels = PUBLISHED[name, split]
    assert data.images.dtype == torch.uint8
    assert data.labels[:5].tolist() == first_labels
    assert data.images.numpy().sum(dtype=np.int64) == pixel_sum


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("name", ["fashion-mnist", "cifar10", "cifar100"])
def test_every_set_but_mnist_is_balanced(name, split, published):
    info = REGISTRY[name]
    labels = load(name, split, published(name, split), download=False).labels
    expected = info.split_size(split) // len(info.class_names)
    assert labels.bincount().tolist() == [expected] * len(info.class_names)
