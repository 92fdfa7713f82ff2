"""What every set that makes points from the items of a batch promises."""

import pytest
import torch

from felbo.measurement import (
    Beyond,
    Box,
    Elsewhere,
    Monochrome,
    Mosaic,
    Noise,
    PhaseNoise,
    RandomConvolution,
    Rolled,
    ShuffledColumns,
    ShuffledPatches,
    Smoothed,
)

IMAGES = {
    "rolled": Rolled,
    "patches": ShuffledPatches,
    "phases": PhaseNoise,
    "mosaic": Mosaic,
    "convolution": RandomConvolution,
    "smoothed": Smoothed,
    "colours": Monochrome,
    "pixels": lambda generator: Monochrome("pixels", generator=generator),
    "noise": Noise,
    "gaussian": lambda generator: Noise("gaussian", generator=generator),
    "elsewhere": Elsewhere,
}
TABLES = {
    "columns": ShuffledColumns,
    "beyond": Beyond,
    "box": Box,
    "noise": Noise,
    "elsewhere": Elsewhere,
}
MOVES_ONLY = {"rolled", "patches", "mosaic", "pixels", "columns"}
CASES = [
    *(pytest.param(name, build, (3, 9, 8), id=f"image-{name}") for name, build in IMAGES.items()),
    *(pytest.param(name, build, (5,), id=f"table-{name}") for name, build in TABLES.items()),
]
SIZES = [(1, 28, 28), (3, 32, 32), (3, 7, 5), (2, 1, 4), (4, 3, 1)]


def batch(items, shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return (3 * torch.rand(items, *shape, generator=generator) - 1).to(dtype)


@pytest.mark.parametrize(("name", "build", "shape"), CASES)
def test_the_generator_decides_and_the_batch_is_left_alone(name, build, shape):
    x = batch(12, shape)
    kept = x.clone()

    def points():
        made = build(generator=torch.Generator().manual_seed(1))
        return made(x), made(x)

    state = torch.get_rng_state()
    first, second = points()
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(1)
    again = points()
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])
    assert not torch.equal(first, second)
    assert torch.equal(x, kept)
    assert first.data_ptr() != x.data_ptr()


@pytest.mark.parametrize(("name", "build", "shape"), CASES)
def test_without_a_generator_the_global_seed_decides(name, build, shape):
    x, made = batch(12, shape), build(generator=None)
    torch.manual_seed(0)
    first = made(x)
    torch.manual_seed(0)
    assert torch.equal(made(x), first)


@pytest.mark.parametrize(("name", "build", "shape"), CASES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_points_have_the_dtype_of_the_batch(name, build, shape, dtype):
    x = batch(12, shape, dtype)
    points = build(generator=torch.Generator().manual_seed(1))(x)
    assert points.dtype == dtype
    assert points.shape == x.shape
    assert points.isfinite().all()


@pytest.mark.parametrize(("name", "build", "shape"), CASES)
@pytest.mark.parametrize("generator", [None, torch.Generator()])
def test_points_are_on_the_device_of_the_batch_whatever_that_of_the_generator(
    name, build, shape, generator
):
    assert build(generator=generator)(batch(12, shape).to("meta")).device.type == "meta"


@pytest.mark.parametrize(("name", "build", "shape"), CASES)
def test_integers_are_moved_but_not_computed_with(name, build, shape):
    x, made = batch(12, shape).mul(50).to(torch.int64), build(generator=None)
    if name in MOVES_ONLY:
        assert made(x).dtype == torch.int64
    else:
        with pytest.raises(TypeError, match=r"needs floating-point inputs, got torch\.int64"):
            made(x)


@pytest.mark.parametrize(("name", "build"), IMAGES.items())
@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("items", [1, 2, 9])
def test_any_number_of_images_of_any_size_will_do(name, build, shape, items):
    x = batch(items, shape)
    points = build(generator=torch.Generator().manual_seed(1))(x)
    assert points.shape == x.shape
    assert points.isfinite().all()
    # In the units of the data: within a few times its range.
    assert points.abs().max() < 10


@pytest.mark.parametrize(("name", "build"), TABLES.items())
@pytest.mark.parametrize("items", [1, 2, 9])
@pytest.mark.parametrize("columns", [1, 30])
def test_any_size_of_table_will_do(name, build, items, columns):
    x = batch(items, (columns,))
    points = build(generator=torch.Generator().manual_seed(1))(x)
    assert points.shape == x.shape
    assert points.isfinite().all()
    assert points.abs().max() < 20


@pytest.mark.parametrize(("name", "build", "shape"), CASES)
def test_points_scale_and_shift_with_the_data(name, build, shape):
    """Units are those of the data: a change of units changes points alike."""
    x = batch(12, shape, torch.float64)

    def points(x):
        return build(generator=torch.Generator().manual_seed(1))(x)

    torch.testing.assert_close(points(100 * x + 7), 100 * points(x) + 7)


@pytest.mark.parametrize(("name", "build", "shape"), CASES)
def test_points_are_constants(name, build, shape):
    x = batch(12, shape).requires_grad_()
    assert not build(generator=None)(x).requires_grad


@pytest.mark.parametrize(("name", "build", "shape"), CASES)
def test_autocast_does_not_coarsen_points(name, build, shape):
    x = batch(12, shape)

    def points():
        return build(generator=torch.Generator().manual_seed(1))(x)

    expected = points()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(points(), expected)


@pytest.mark.parametrize(("name", "build", "shape"), CASES)
def test_other_inputs_are_refused_in_words_that_help(name, build, shape):
    made, x = build(generator=None), batch(12, shape)
    with pytest.raises((TypeError, ValueError), match="one tensor"):
        made((x, x))
    with pytest.raises(ValueError, match=r"B ≥ 1|empty"):
        made(x[:0])
    if name not in ("noise", "gaussian"):
        with pytest.raises(ValueError, match=r"\[B, C, H, W\]|\[B, D\]"):
            made(torch.rand(4, 5, 6))
