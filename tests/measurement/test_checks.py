import math

import pytest
import torch

from felbo.measurement import checked_points

X = torch.zeros(3, 2)


def test_points_that_fit_come_back_as_they_are():
    for points in (torch.ones(1, 2), torch.ones(5, 2), torch.ones(5, 2, dtype=torch.bfloat16)):
        assert checked_points(points, X) is points
    nested = {"a": (torch.ones(4, 2), torch.ones(4))}
    assert checked_points(nested, {"a": [X, torch.zeros(3)]}) is nested


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (torch.zeros(0, 2), "returned no points"),
        (torch.zeros(3, 1), r"expected \[S, ...\] with \[2\] after the first axis, got \[3, 1\]"),
        (torch.zeros(2), r"got \[2\]"),
        (torch.tensor(1.0), r"got \[\]"),
        (torch.tensor([[0.0, math.nan]]), "contain NaN, though the batch is finite"),
        (torch.zeros(3, 2, dtype=torch.float64), r"points.to\(x.dtype\)"),
        (torch.zeros(3, 2, device="meta"), "points on meta, but the batch is on cpu"),
        (None, r"returned None.*felbo.measurement.Batch\(\)"),
    ],
)
def test_points_that_do_not_fit_are_refused(points, message):
    with pytest.raises(ValueError, match=message) as error:
        checked_points(points, X, "Mine")
    assert str(error.value).startswith("Mine")


@pytest.mark.parametrize(
    ("points", "x", "message"),
    [
        ([[1.0, 2.0]], X, "must be a tensor, as the batch is, got a list of 1"),
        ("points", X, "got str"),
        ({"a": X}, {"b": X}, r"keys \['b'\], as the batch is, got a dict with the keys \['a'\]"),
        ((X,), (X, X), "a tuple of 2, as the batch is, got a tuple of 1"),
        (X, 3, "Inputs must be a tensor, or a tuple, list or dict of tensors; got int"),
    ],
)
def test_other_structures_are_refused(points, x, message):
    with pytest.raises(TypeError, match=message):
        checked_points(points, x)


def test_parts_of_different_length_are_refused():
    with pytest.raises(ValueError, match="same number of items"):
        checked_points((torch.zeros(4, 2), torch.zeros(5, 2)), (X, X))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_in_the_batch_is_named_as_the_cause(value):
    x = torch.tensor([[value]])
    with pytest.raises(ValueError, match="contain NaN, and the batch holds NaN or infinity"):
        checked_points(x - x, x)


def test_infinities_are_no_nan():
    masks = torch.tensor([[math.inf, -math.inf]])
    assert checked_points(masks, X) is masks


def test_integer_batches_may_meet_floating_points():
    points = torch.full((1, 2), 0.5)
    assert checked_points(points, torch.zeros(3, 2, dtype=torch.int64)) is points
