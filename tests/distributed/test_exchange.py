"""Sums and concatenations of a process that is alone; the others are in test_equality."""

import torch

from felbo.distributed.exchange import gathered, summed, with_summed_gradient


def test_a_sum_keeps_shapes_and_gradients_in_float64():
    a, b = torch.randn(2, 3, requires_grad=True), torch.randn((), requires_grad=True)
    found = summed([a, b], None)
    assert [value.shape for value in found] == [a.shape, b.shape]
    assert all(value.dtype == torch.float64 for value in found)
    torch.testing.assert_close(found[0], a.double())
    (found[0].square().sum() + 5 * found[1]).backward()
    torch.testing.assert_close(a.grad, 2 * a.detach())
    assert b.grad == 5


def test_alone_nothing_is_gathered_or_summed():
    x = torch.randn(2, 3, requires_grad=True)
    assert gathered(x, [2], 0, None) is x
    assert with_summed_gradient(x, None) is x
