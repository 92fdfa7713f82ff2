import pytest
import torch

from felbo.measurement import Augmented, Batch, MeasurementSet, Mixture, as_measurement_set


def test_the_batch_stands_for_itself():
    assert Batch()(torch.zeros(2, 1)) is None
    assert Batch().includes_batch


def test_a_function_gives_the_transformed_batch():
    x = torch.randn(3, 1, 4, 4)
    points = Augmented(lambda x: torch.cat([x, x.rot90(1, (2, 3))]))(x)
    assert torch.equal(points, torch.cat([x, x.rot90(1, (2, 3))]))
    assert not Augmented(torch.neg).includes_batch


def test_a_function_may_work_on_any_inputs():
    x = {"tokens": torch.arange(6).view(3, 2), "mask": torch.ones(3, 2)}
    points = Augmented(lambda x: {name: part.flip(1) for name, part in x.items()})(x)
    assert points["tokens"].tolist() == [[1, 0], [3, 2], [5, 4]]


def test_what_users_pass_becomes_a_set():
    grid = Mixture(Batch())
    assert as_measurement_set(grid) is grid
    assert isinstance(as_measurement_set(None), Batch)
    assert isinstance(as_measurement_set(torch.neg), Augmented)
    assert as_measurement_set(torch.nn.Flatten())(torch.zeros(2, 3, 4)).shape == (2, 12)


@pytest.mark.parametrize("value", [Batch, 3, "batch", torch.zeros(2, 2)])
def test_what_is_no_set_is_refused(value):
    with pytest.raises(TypeError, match=r"an instance such as Batch\(\)"):
        as_measurement_set(value)


def test_a_set_of_ones_own_needs_only_the_call():
    class Twice(MeasurementSet):
        def __call__(self, x, comparison=None):
            return 2 * x

    assert Twice()(torch.ones(1, 1)).item() == 2
    assert not Twice().includes_batch
    with pytest.raises(TypeError, match="abstract"):
        MeasurementSet()


def test_a_function_that_works_in_place_leaves_the_batch_alone():
    x = torch.ones(2, 1)
    assert torch.equal(Augmented(lambda x: x.mul_(3.0))(x), torch.full((2, 1), 3.0))
    assert torch.equal(x, torch.ones(2, 1))
