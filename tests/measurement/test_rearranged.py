import pytest
import torch

from felbo.measurement import Mosaic, Rolled, ShuffledPatches


def distinct(batch, channels, height, width):
    """Images in which no two values are equal."""
    return torch.arange(batch * channels * height * width).view(batch, channels, height, width)


@pytest.mark.parametrize("shape", [(40, 3, 9, 13), (40, 1, 8, 8)])
def test_rolled_is_torch_roll_by_shifts_in_the_range(shape):
    x, seen = distinct(*shape), set()
    for before, after in zip(x, Rolled(2)(x), strict=True):
        shifts = [
            (down, right)
            for down in range(-2, 3)
            for right in range(-2, 3)
            if torch.equal(before.roll((down, right), (-2, -1)), after)
        ]
        assert len(shifts) == 1
        seen.add(shifts[0])
    assert {s[0] for s in seen} == {s[1] for s in seen} == set(range(-2, 3))


def test_rolled_by_more_than_the_image_wraps_around():
    x = distinct(20, 2, 4, 5)
    points = Rolled(11)(x)
    assert torch.equal(points.flatten(2).sort().values, x.flatten(2))


def test_by_default_images_roll_by_up_to_a_third():
    x = torch.zeros(500, 1, 12, 30, dtype=torch.int64)
    x[:, :, 0, 0] = 1
    places = Rolled()(x).flatten(1).argmax(1)
    down, right = places // 30, places % 30
    assert set(down.tolist()) == {0, 1, 2, 3, 4, 8, 9, 10, 11}
    assert set(right.tolist()) == {*range(11), *range(20, 30)}


@pytest.mark.parametrize(
    ("size", "patch", "lattice"),
    [((8, 8), 4, (0, 0, 2, 2)), ((7, 11), (2, 3), (0, 1, 3, 3)), ((9, 10), 4, (0, 1, 2, 2))],
)
def test_patches_are_permuted_as_wholes_and_the_rest_stays(size, patch, lattice):
    x = distinct(30, 3, *size)
    points = ShuffledPatches(patch)(x)
    (high, wide), (top, left, rows, columns) = (
        (patch, patch) if isinstance(patch, int) else patch,
        lattice,
    )

    def cut(image):
        return [
            image[:, top + r * high : top + (r + 1) * high, left + c * wide :][:, :, :wide]
            for r in range(rows)
            for c in range(columns)
        ]

    orders = set()
    for before, after in zip(x, points, strict=True):
        known = {tuple(piece.flatten().tolist()): k for k, piece in enumerate(cut(before))}
        order = [known[tuple(piece.flatten().tolist())] for piece in cut(after)]
        assert sorted(order) == list(range(rows * columns))
        orders.add(tuple(order))
    assert len(orders) > 10
    rest = torch.ones(size, dtype=torch.bool)
    rest[top : top + rows * high, left : left + columns * wide] = False
    assert torch.equal(points[..., rest], x[..., rest])


def test_by_default_a_patch_is_a_quarter_of_the_side():
    for size, patches, pixels in (((28, 32), 16, 56), ((1, 3), 3, 1), ((9, 5), 20, 2)):
        corners, patch_of = ShuffledPatches().lattice(*size)
        assert len(corners) == patches
        assert patch_of.bincount()[:patches].tolist() == [pixels] * patches


def test_patches_that_cannot_be_shuffled_are_refused():
    with pytest.raises(ValueError, match="fit 1 times into images of 8 × 8"):
        ShuffledPatches(5)(torch.zeros(2, 1, 8, 8))
    with pytest.raises(ValueError, match="at least one pixel, got 0"):
        ShuffledPatches(0)


@pytest.mark.parametrize("size", [(8, 8), (7, 9), (1, 6)])
def test_half_of_the_blocks_of_a_mosaic_come_from_one_other_image(size):
    x = torch.arange(10)[:, None, None, None].expand(10, 2, *size)
    points = Mosaic(3)(x)
    down, right = (min(3, side) for side in size)
    row = torch.arange(size[0]) * down // size[0]
    column = torch.arange(size[1]) * right // size[1]
    for k, image in enumerate(points):
        assert torch.equal(image[0], image[1])
        assert len(image.unique()) == 2
        assert k in image
        from_other = [
            image[0][(row == r)[:, None] & (column == c)].ne(k).unique().tolist()
            for r in range(down)
            for c in range(right)
        ]
        assert all(len(block) == 1 for block in from_other)
        assert sum(block[0] for block in from_other) == down * right // 2


def test_a_mosaic_of_a_single_image_is_made_with_itself_upside_down():
    x = distinct(1, 1, 4, 4)
    point = Mosaic(2)(x)[0]
    original, turned = point == x[0], point == x[0].flip(-2, -1)
    assert (original ^ turned).all()
    assert original.sum() == turned.sum() == 8


def test_no_image_is_rolled_by_nothing():
    x = torch.arange(12.0).view(1, 1, 4, 3).expand(2000, -1, -1, -1)
    for max_shift in (None, 1, 4):  # by 4 rows and by 3 columns, an image is where it was
        assert not (Rolled(max_shift)(x) == x).flatten(1).all(1).any()


@pytest.mark.parametrize(("build", "value"), [(Mosaic, 1), (Rolled, 0)])
def test_settings_without_effect_are_refused(build, value):
    with pytest.raises(ValueError, match=f"at least .*, got {value}"):
        build(value)
