import pytest
import torch

from felbo.measurement import Augmented, Batch, Comparison, MeasurementSet, Mixture


def test_a_mixture_holds_the_points_of_all_parts_in_order():
    x = torch.randn(3, 2)
    mixture = Mixture(lambda x: x + 1, lambda x: x[:1] * 2)
    torch.testing.assert_close(mixture(x), torch.cat([x + 1, x[:1] * 2]))
    assert not mixture.includes_batch


def test_the_batch_in_a_mixture_is_announced_and_not_repeated():
    x = torch.randn(3, 2)
    mixture = Mixture(Augmented(torch.neg), Batch())
    torch.testing.assert_close(mixture(x), -x)
    assert mixture.includes_batch
    assert Mixture(Batch(), Batch())(x) is None


def test_mixtures_nest():
    x = torch.randn(3, 2)
    mixture = Mixture(Mixture(Batch(), lambda x: -x), lambda x: 2 * x)
    torch.testing.assert_close(mixture(x), torch.cat([-x, 2 * x]))
    assert mixture.includes_batch
    assert Mixture(Mixture(Batch()))(x) is None


def test_any_inputs_are_joined_tensor_by_tensor():
    x = {"a": torch.zeros(2, 1), "b": (torch.zeros(2), torch.ones(2, 3))}
    negative = Augmented(lambda x: {"a": x["a"] - 1, "b": [x["b"][0] - 1, -x["b"][1]]})
    points = Mixture(negative, lambda x: x)(x)
    assert points["a"].flatten().tolist() == [-1, -1, 0, 0]
    assert points["b"][1][:, 0].tolist() == [-1, -1, 1, 1]


def test_every_part_is_offered_the_comparison():
    class Asks(MeasurementSet):
        def __call__(self, x, comparison=None):
            return x + comparison.divergence(x)[:, None]

    x = torch.ones(2, 3)
    comparison = Comparison(model=None, divergence=lambda points: points.sum(-1))
    assert Mixture(Asks(), Mixture(Asks()))(x, comparison).tolist() == [[4.0] * 3] * 4


def test_an_empty_mixture_and_parts_without_points_are_refused():
    with pytest.raises(ValueError, match="at least one measurement set"):
        Mixture()
    with pytest.raises(ValueError, match=r"Augmented returned None.*use felbo.measurement.Batch\("):
        Mixture(lambda x: None)(torch.zeros(2, 1))
    with pytest.raises(ValueError, match="Augmented returned no points"):
        Mixture(Batch(), lambda x: x[:0])(torch.zeros(2, 1))
