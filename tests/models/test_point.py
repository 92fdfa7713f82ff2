import torch

from felbo import MAP
from felbo.networks import mlp


def test_every_draw_is_the_network():
    network = mlp(4, (5,), 3)
    model, x = MAP(network), torch.randn(6, 4)
    torch.testing.assert_close(model(x), network(x)[None], rtol=0, atol=0)
    torch.testing.assert_close(model(x, 7), network(x).expand(7, 6, 3), rtol=0, atol=0)
    assert len(model(x)) == len(model.eval()(x)) == 1


def test_gradient_of_a_mean_over_draws_does_not_depend_on_their_number():
    network, x = mlp(4, (5,), 3).double(), torch.randn(6, 4, dtype=torch.float64)
    gradients = []
    for draws in (1, 5):
        model = MAP(network)
        model(x, draws).square().mean().backward()
        gradients.append(model.network[1].weight.grad)
    torch.testing.assert_close(*gradients)


def test_there_is_no_weight_posterior():
    kl = MAP(mlp(4, (5,), 3).double()).weight_kl()
    assert kl.item() == 0.0
    assert kl.dtype == torch.float64
    assert not kl.requires_grad
