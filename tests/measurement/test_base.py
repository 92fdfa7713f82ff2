import pytest
import torch

from felbo.measurement import Augmented, Batch, Mixture


def test_the_batch_stands_for_itself():
    assert Batch()(torch.zeros(2, 1)) is None
    assert Batch().includes_batch


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


def test_an_empty_mixture_and_a_part_without_points_are_refused():
    with pytest.raises(ValueError, match="at least one measurement set"):
        Mixture()
    with pytest.raises(ValueError, match=r"use Batch\(\)"):
        Mixture(lambda x: None)(torch.zeros(2, 1))
