import pytest
import torch

from felbo.measurement import Augmented


def test_gives_the_transformed_batch():
    x = torch.randn(3, 1, 4, 4)
    torch.testing.assert_close(Augmented(lambda x: x.rot90(1, (2, 3)))(x), x.rot90(1, (2, 3)))


def test_may_change_the_number_of_points():
    x = torch.randn(3, 2)
    assert Augmented(lambda x: torch.cat([x, -x]))(x).shape == (6, 2)


def test_a_change_of_the_input_shape_is_refused():
    with pytest.raises(ValueError, match=r"keep the shape of an input, \[2\], got \[1\]"):
        Augmented(lambda x: x[:, :1])(torch.zeros(3, 2))
