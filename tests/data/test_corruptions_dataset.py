"""Corrupted test sets, generated and read from published files."""

import numpy as np
import pytest
import torch

from felbo.data import (
    SEVERITIES,
    CorruptDataError,
    MissingDataError,
    corrupted,
    corrupted_folder,
    load,
)
from felbo.data.corruptions.generated import CHUNK, generate


def published_images(count=10):
    """Stand-ins for a published file: image n at severity s is filled with 10 s + n."""
    levels = [10 * severity + n for severity in SEVERITIES for n in range(count)]
    return np.full((len(levels), 32, 32, 3), np.array(levels).reshape(-1, 1, 1, 1), dtype=np.uint8)


@pytest.fixture
def folder(tiny_cifar):
    """A folder in the layout of CIFAR-10-C with ten images and two corruptions."""
    found = tiny_cifar / "CIFAR-10-C"
    found.mkdir()
    np.save(found / "labels.npy", np.tile(np.arange(10, dtype=np.uint8), 5))
    for corruption in ("fog", "snow"):
        np.save(found / f"{corruption}.npy", published_images())
    return found


# Generated


def test_generated_images_are_the_test_images_in_order(tiny_cifar):
    clean = load("cifar10", "test", tiny_cifar)
    found = corrupted("cifar10", "contrast", 1, root=tiny_cifar)
    assert corrupted_folder("cifar10", tiny_cifar) is None
    assert torch.equal(found.labels, clean.labels)
    assert found.class_names == clean.class_names
    # Contrast keeps the mean of each image, so that an image can be told by it.
    difference = found.images.float().mean((1, 2, 3)) - clean.images.float().mean((1, 2, 3))
    assert difference.abs().max() < 1


def test_the_first_images_are_the_same_whatever_the_limit(tiny_cifar):
    whole = corrupted("cifar10", "snow", 3, root=tiny_cifar).images
    assert torch.equal(corrupted("cifar10", "snow", 3, root=tiny_cifar, limit=5).images, whole[:5])
    images = torch.randint(256, (CHUNK + 20, 3, 8, 8), dtype=torch.uint8)
    chunks = list(generate(images, "shot_noise", 2, seed=1))
    limited = list(generate(images, "shot_noise", 2, seed=1, limit=CHUNK + 3))
    assert [len(chunk) for chunk in limited] == [CHUNK, 3]
    assert torch.equal(limited[1], chunks[1][:3])


def test_seeds_severities_and_chunks_have_random_numbers_of_their_own(tiny_cifar):
    grey = torch.full((2 * CHUNK, 3, 8, 8), 128, dtype=torch.uint8)
    first, second = generate(grey, "gaussian_noise", 1)
    (other_seed,) = generate(grey[:CHUNK], "gaussian_noise", 1, seed=1)
    assert not torch.equal(first, second)
    assert not torch.equal(first, other_seed)
    one, two = (next(generate(grey, "gaussian_noise", s)).float() - 128 for s in (1, 2))
    correlation = torch.corrcoef(torch.stack([one.flatten(), two.flatten()]))[0, 1]
    assert abs(correlation) < 0.05


def test_frost_of_a_data_set_uses_the_textures_of_its_root(tiny_cifar):
    once, again = (corrupted("cifar10", "frost", 2, root=tiny_cifar).images for _ in range(2))
    assert torch.equal(once, again)


@pytest.mark.parametrize("limit", [0, 13])
def test_limits_beyond_the_images_are_refused(tiny_cifar, limit):
    with pytest.raises(ValueError, match=f"from 1 to 12 images, but got {limit}"):
        corrupted("cifar10", "fog", 1, root=tiny_cifar, limit=limit)


def test_other_data_sets_are_refused(tiny_cifar):
    with pytest.raises(ValueError, match="Expected cifar10 or cifar100"):
        corrupted("mnist", "fog", 1, root=tiny_cifar)


# Published


def test_published_files_are_read_where_they_are(folder, tiny_cifar):
    found = corrupted("cifar10", "fog", 3, root=tiny_cifar, limit=4)
    assert corrupted_folder("cifar10", tiny_cifar) == folder
    assert found.images.shape == (4, 3, 32, 32)
    assert found.images.dtype == torch.uint8
    assert found.images[:, 1, 2, 3].tolist() == [30, 31, 32, 33]
    assert found.labels.tolist() == [0, 1, 2, 3]
    assert found.labels.dtype == torch.int64
    assert len(corrupted("cifar10", "fog", 5, root=tiny_cifar).images) == 10


def test_channels_come_first(folder, tiny_cifar):
    images = published_images()
    images[0, 5, 6, 2] = 255
    np.save(folder / "fog.npy", images)
    image = corrupted("cifar10", "fog", 1, root=tiny_cifar, limit=1).images[0]
    assert (image == 255).nonzero().tolist() == [[2, 5, 6]]


def test_published_can_be_insisted_on_or_declined(folder, tiny_cifar):
    generated = corrupted("cifar10", "fog", 3, root=tiny_cifar, published=False)
    assert len(generated.images) == 12
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(MissingDataError, match=r"labels.npy .*zenodo.org/records/2535967"):
        corrupted("cifar10", "fog", 3, root=tiny_cifar, published=True)


def test_a_corruption_that_is_missing_among_the_files_is_not_generated_instead(folder, tiny_cifar):
    with pytest.raises(MissingDataError, match=r"frost.npy .* published=False"):
        corrupted("cifar10", "frost", 3, root=tiny_cifar)


BAD_IMAGES = {
    "another shape": published_images(9),
    "another type": published_images().astype(np.float32),
    "channels first": published_images().transpose(0, 3, 1, 2),
    "objects": np.array([None] * 50, dtype=object),
}


@pytest.mark.parametrize("kind", BAD_IMAGES)
def test_files_of_another_kind_are_refused(folder, tiny_cifar, kind):
    np.save(folder / "fog.npy", BAD_IMAGES[kind], allow_pickle=True)
    with pytest.raises(CorruptDataError, match=r"fog.npy: expected"):
        corrupted("cifar10", "fog", 1, root=tiny_cifar)


def test_a_file_cut_short_is_refused(folder, tiny_cifar):
    path = folder / "fog.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptDataError, match=r"fog.npy: expected a whole .npy array"):
        corrupted("cifar10", "fog", 1, root=tiny_cifar)


@pytest.mark.parametrize(
    "labels",
    [
        np.arange(50) % 11,
        np.arange(50) % 10 + 1,
        np.zeros(49, int),
        np.zeros(50),
        np.zeros((5, 10)),
    ],
    ids=["order", "range", "count", "type", "shape"],
)
def test_bad_labels_are_refused(folder, tiny_cifar, labels):
    np.save(folder / "labels.npy", labels)
    with pytest.raises(CorruptDataError, match=r"labels.npy: expected five times the same"):
        corrupted("cifar10", "fog", 1, root=tiny_cifar)
