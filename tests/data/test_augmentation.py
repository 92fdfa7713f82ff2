"""Crops and flips: each result is one of the possible ones, and all are equally likely."""

import pytest
import torch
from torch.nn import functional as F

from felbo.data.augmentation import random_crop, random_crop_flip, random_flip


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def numbered(batch, channels=3, height=5, width=6):
    """Images whose pixels all differ, so that a crop says where it was cut."""
    return torch.arange(1.0, batch * channels * height * width + 1).view(
        batch, channels, height, width
    )


def shifts_of(images, cropped, padding):
    """Where each crop was cut, by comparing it with every possible one; fails where none fits."""
    height, width = images.shape[-2:]
    padded = F.pad(images, [padding] * 4)
    found = []
    for image, crop in zip(padded, cropped, strict=True):
        found.append(
            [
                (i, j)
                for i in range(2 * padding + 1)
                for j in range(2 * padding + 1)
                if torch.equal(image[:, i : i + height, j : j + width], crop)
            ]
        )
    assert all(len(places) == 1 for places in found)
    return torch.tensor([places[0] for places in found])


def test_every_crop_is_a_piece_of_its_own_padded_image():
    images = numbered(50)
    shifts = shifts_of(images, random_crop(images, padding=2, generator=seeded()), padding=2)
    assert shifts.min() == 0
    assert shifts.max() == 4
    assert len(shifts.unique(dim=0)) > 10  # images of one batch move independently


def test_all_shifts_are_equally_likely():
    images = numbered(1, channels=1, height=3, width=3).expand(9000, 1, 3, 3)
    padded = F.pad(images[0, 0], [1] * 4)
    cropped = random_crop(images, padding=1, generator=seeded())
    counts = torch.tensor(
        [
            (cropped[:, 0] == padded[i : i + 3, j : j + 3]).all((-2, -1)).sum()
            for i in range(3)
            for j in range(3)
        ]
    )
    assert counts.sum() == 9000
    # Eight degrees of freedom: exceeded once in a thousand seeds.
    assert ((counts - 1000) ** 2 / 1000).sum() < 26.1


def test_no_padding_is_the_identity():
    images = numbered(4)
    assert torch.equal(random_crop(images, padding=0), images)


def test_the_border_is_zero_in_the_units_of_the_images():
    cropped = random_crop(torch.full((200, 2, 4, 4), -3.0), padding=4, generator=seeded())
    assert set(cropped.flatten().tolist()) == {-3.0, 0.0}


def test_half_of_the_images_are_mirrored_and_the_others_left_alone():
    images = numbered(4000, channels=2, height=2, width=3)
    flipped = random_flip(images, generator=seeded())
    same = (flipped == images).flatten(1).all(1)
    mirrored = (flipped == images.flip(-1)).flatten(1).all(1)
    assert (same ^ mirrored).all()
    assert abs(mirrored.sum() - 2000) < 4 * 1000**0.5  # four standard deviations


def test_crop_and_flip_is_one_after_the_other():
    images = numbered(20, height=8, width=8)
    generator = seeded(3)
    expected = random_flip(random_crop(images, padding=4, generator=generator), generator=generator)
    assert torch.equal(random_crop_flip(images, generator=seeded(3)), expected)
    assert not torch.equal(random_crop_flip(images, generator=seeded(4)), expected)


def test_crop_and_flip_are_independent():
    images = numbered(1, channels=1, height=2, width=2).expand(8000, 1, 2, 2)
    results = random_crop_flip(images, padding=1, generator=seeded()).flatten(1)
    # Nine pieces, mirrored or not, and no two alike, since the four pixels differ.
    _, counts = results.unique(dim=0, return_counts=True)
    assert counts.sum() == 8000
    assert len(counts) == 18
    assert ((counts - 8000 / 18) ** 2 / (8000 / 18)).sum() < 40.8  # 17 degrees, one in a thousand


@pytest.mark.parametrize("augment", [random_crop, random_flip, random_crop_flip])
def test_a_seed_repeats_and_the_global_generator_rests(augment):
    images = numbered(8)
    before = torch.get_rng_state()
    first = augment(images, generator=seeded(1))
    assert torch.equal(first, augment(images, generator=seeded(1)))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert torch.equal(first, augment(images))


@pytest.mark.parametrize("augment", [random_crop, random_flip, random_crop_flip])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8])
def test_type_and_memory_format_stay_and_the_images_rest(augment, layout, dtype):
    images = numbered(4).to(dtype).contiguous(memory_format=layout)
    kept = images.clone()
    result = augment(images, generator=seeded())
    plain = augment(images.contiguous(), generator=seeded())
    assert torch.equal(images, kept)
    assert torch.equal(result, plain)
    assert result.dtype == dtype
    assert result.is_contiguous(memory_format=layout)


def test_empty_batches_stay_empty():
    assert random_crop_flip(torch.empty(0, 3, 8, 8)).shape == (0, 3, 8, 8)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"\[B, C, H, W\].*\(3, 8, 8\)"):
        random_crop(torch.zeros(3, 8, 8))
    with pytest.raises(ValueError, match=r"\[B, C, H, W\].*\(3, 8, 8\)"):
        random_flip(torch.zeros(3, 8, 8))
    with pytest.raises(ValueError, match=r"at least 0.*-1"):
        random_crop(torch.zeros(1, 3, 8, 8), padding=-1)
