import pytest
import torch

import felbo
from felbo.measurement import Augmented, Batch, Comparison, Elsewhere, Mixture, Noise, WorstCase

WEIGHTS = torch.tensor([1.0, -2.0, 0.0, 0.5])
LINEAR = Comparison(model=None, divergence=lambda points: points @ WEIGHTS)


def divergence_of(model):
    """Return the divergence from the uniform prior of a model of one draw with precision 100."""

    def divergence(points):
        probs = model(points).softmax(-1)
        alpha = 100.0 * probs.detach()[0]
        beta = torch.ones_like(alpha)
        at_posterior = felbo.dirichlet.log_prob(probs, alpha)
        return (at_posterior - felbo.dirichlet.log_prob(probs, beta))[0]

    return Comparison(model, divergence)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_linear_divergence_takes_points_along_the_signs_of_its_weights(steps):
    x = torch.rand(10, 4)
    points = WorstCase(steps=steps, size=0.3, low=0.0, high=1.0)(x, LINEAR)
    torch.testing.assert_close(points, (x + 0.3 * WEIGHTS.sign()).clamp(0.0, 1.0))


def test_the_range_and_the_size_come_from_the_batch_by_default():
    x = torch.rand(10, 4) * torch.tensor([1.0, 10.0, 1.0, 100.0])
    low, high = x.amin(0), x.amax(0)
    points = WorstCase()(x, LINEAR)
    expected = (x + 0.15 * (high - low) * WEIGHTS.sign()).clamp(low, high)
    torch.testing.assert_close(points, expected)


def test_bounds_are_those_of_each_channel():
    x = torch.full((2, 3, 4, 4), 0.5)
    upwards = Comparison(None, lambda points: points.flatten(1).sum(1))
    points = WorstCase(size=9.0, low=[0.0, 0.0, 0.0], high=[1.0, 2.0, 3.0])(x, upwards)
    assert points[0, :, 0, 0].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("base", "start"),
    [
        (Augmented(lambda x: x + 5), lambda x: x + 5),
        (lambda x: x[:2] - 5, lambda x: x[:2] - 5),
        (Batch(), lambda x: x),
        (Mixture(Batch(), lambda x: -x), lambda x: torch.cat([x, -x])),
    ],
)
def test_it_starts_from_the_points_of_another_set_and_their_range(base, start):
    x = torch.randn(6, 4)
    begin = start(x)
    values = torch.cat([x, begin])
    expected = (begin + 0.1 * WEIGHTS.sign()).clamp(values.amin(0), values.amax(0))
    torch.testing.assert_close(WorstCase(base, size=0.1)(x, LINEAR), expected)


def test_the_divergence_of_a_network_grows_and_its_parameters_get_no_gradients():
    torch.manual_seed(0)
    network = felbo.networks.mlp(12, (20,), 3)
    network[1].weight.data.mul_(5.0)
    model = felbo.MAP(network)
    comparison = divergence_of(model)
    x = torch.randn(30, 3, 2, 2)
    found = [x, *(WorstCase(steps=n, size=0.2)(x, comparison) for n in (1, 4))]
    before, once, often = (comparison.divergence(points).mean().item() for points in found)
    assert before + 0.05 < once <= often + 1e-3
    assert (found[2] - x).abs().max() <= 0.2 + 1e-6
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not found[2].requires_grad


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_finds_the_same_points_where_gradients_are_off(mode):
    torch.manual_seed(0)
    comparison = divergence_of(felbo.MAP(felbo.networks.mlp(4, (20,), 3)))
    x = torch.randn(5, 4)
    expected = WorstCase(lambda x: x + 1)(x, comparison)
    with mode():
        assert torch.equal(WorstCase(lambda x: x + 1)(x, comparison), expected)


def test_as_a_part_it_moves_its_share_in_the_range_of_the_whole_batch():
    x = torch.randn(8, 4)
    points = Elsewhere([WorstCase(size=100.0)], fraction=0.25)(x, LINEAR)
    assert points.shape == (2, 4)
    assert (points[:, 0] == x[:, 0].max()).all()
    assert (points[:, 1] == x[:, 1].min()).all()


def test_half_precision_stays_what_it_is():
    x = torch.rand(3, 4).bfloat16()
    linear = Comparison(None, lambda points: points @ WEIGHTS.bfloat16())
    assert WorstCase()(x, linear).dtype == torch.bfloat16


def test_what_it_cannot_work_with_is_refused():
    x = torch.rand(3, 4)
    with pytest.raises(ValueError, match="call it with a Comparison"):
        WorstCase()(x)
    with pytest.raises(ValueError, match="call it with a Comparison"):
        Mixture(Batch(), WorstCase(Noise()))(x)
    with pytest.raises(TypeError, match=r"floating-point inputs, got torch\.int64"):
        WorstCase()(torch.zeros(3, 4, dtype=torch.int64), LINEAR)
    with pytest.raises(ValueError, match=r"each of the 3 points.*got shape \[\]"):
        WorstCase()(x, Comparison(None, lambda points: points.sum()))
    with pytest.raises(ValueError, match="without a gradient"):
        WorstCase()(x, Comparison(None, lambda points: points.detach()[:, 0]))
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1"):
        WorstCase(steps=0)
    with pytest.raises(ValueError, match="size must be positive"):
        WorstCase(size=0.0)
