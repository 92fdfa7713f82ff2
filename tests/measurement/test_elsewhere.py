import pytest
import torch

from felbo.measurement import (
    Augmented,
    Batch,
    Elsewhere,
    ItemwiseSet,
    Mixture,
    Pool,
    image_parts,
    table_parts,
)


class Named(ItemwiseSet):
    """Marks the items it makes points from."""

    def __init__(self, mark):
        self.mark = mark

    def from_rows(self, x, rows, comparison=None):
        assert len(x) > len(rows) or len(rows) == len(x)
        return x[rows] + self.mark


@pytest.mark.parametrize(("items", "parts"), [(16, 4), (17, 4), (3, 5), (1, 3), (64, 1)])
def test_parts_make_points_from_equal_shares_of_different_items(items, parts):
    x = torch.arange(items)[:, None]
    for _ in range(10):
        points = Elsewhere([Named(1000 * k) for k in range(parts)])(x)[:, 0]
        assert sorted((points % 1000).tolist()) == list(range(items))
        assert (points // 1000).tolist() == sorted((points // 1000).tolist())
        shares = (points // 1000).bincount(minlength=parts)
        assert shares.max() - shares.min() <= 1


def test_every_part_sees_every_item_in_the_long_run_also_in_small_batches():
    x, elsewhere = torch.arange(2)[:, None], Elsewhere([Named(10 * k) for k in range(5)])
    seen = {int(point) for _ in range(300) for point in elsewhere(x)}
    assert seen == {10 * k + item for k in range(5) for item in range(2)}


@pytest.mark.parametrize(("fraction", "count"), [(1.0, 20), (0.5, 10), (0.26, 5), (0.001, 1)])
def test_a_fraction_of_the_batch_is_enough(fraction, count):
    assert len(Elsewhere(fraction=fraction)(torch.rand(20, 3, 8, 8))) == count
    assert len(Elsewhere(fraction=fraction)(torch.rand(20, 3))) == count


@pytest.mark.parametrize(
    ("x", "parts"),
    [(torch.rand(16, 3, 9, 8), image_parts), (torch.rand(15, 4), table_parts)],
)
def test_the_number_of_axes_decides_on_the_parts(x, parts):
    chosen = Elsewhere().parts_for(x)
    assert [type(part) for part in chosen] == [type(part) for part in parts()]
    points = Elsewhere()(x)
    assert points.shape == x.shape
    assert points.isfinite().all()
    # No point is an item of the batch.
    assert (points[:, None] - x[None]).flatten(2).abs().amax(-1).min() > 1e-4


def test_parts_for_any_inputs_share_them():
    x = {"a": torch.arange(6)[:, None], "b": torch.arange(6)}
    parts = [Augmented(lambda x: x), lambda x: {name: -part for name, part in x.items()}]
    points = Elsewhere(parts)(x)
    assert torch.equal(points["a"][:, 0], points["b"])
    assert sorted(points["b"].abs().tolist()) == list(range(6))


def test_sets_with_a_size_of_their_own_keep_it():
    points = Elsewhere([Pool(torch.rand(30, 2)), lambda x: -x])(torch.rand(8, 2))
    assert points.shape == (34, 2)


def test_what_it_cannot_work_with_is_refused():
    with pytest.raises(ValueError, match=r"got shape \[4, 5, 6\]. Pass the parts"):
        Elsewhere()(torch.rand(4, 5, 6))
    with pytest.raises(ValueError, match=r"got tuple\. Pass the parts"):
        Elsewhere()((torch.rand(4, 5), torch.rand(4)))
    with pytest.raises(ValueError, match="which is empty"):
        Elsewhere()(torch.rand(0, 5))
    with pytest.raises(ValueError, match=r"Mixture\(Batch\(\), Elsewhere"):
        Elsewhere([Mixture(Batch(), torch.neg)])
    with pytest.raises(ValueError, match="at least one measurement set"):
        Elsewhere([])
    for fraction in (0.0, 1.5):
        with pytest.raises(ValueError, match=r"fraction must lie in \(0, 1\]"):
            Elsewhere(fraction=fraction)


def test_a_part_that_returns_nonsense_is_named():
    with pytest.raises(ValueError, match="Augmented must keep the shape"):
        Elsewhere([lambda x: x[:, :1]])(torch.rand(4, 2))
