"""Radial weights: distances, directions, and the KL against an explicit density."""

import math

import pytest
import torch
from scipy import stats
from torch import nn
from torch.distributions import Normal

from felbo.models.radial import Radial

COUNT = 2000


@torch.no_grad()
def standardised_draws(model, seed):
    """(w − μ) / σ, weight and bias of each layer joined: one [draws, D] per layer."""
    generator = torch.Generator().manual_seed(seed)
    layers = list(model.layer_posteriors())
    rows = [[] for _ in layers]
    for _ in range(COUNT):
        drawn = model.draw_weights(generator=generator)
        for row, layer in zip(rows, layers, strict=True):
            parts = zip(*layer, strict=True)
            noise = [((drawn[name] - mean) / scale).flatten() for name, mean, scale in parts]
            row.append(torch.cat(noise))
    return [torch.stack(row) for row in rows]


@pytest.fixture(scope="module")
def noise():
    torch.manual_seed(0)
    model = Radial(nn.Linear(6, 5)).double()
    for parameter in model.rho.parameters():
        nn.init.uniform_(parameter, -3.0, 1.0)
    (draws,) = standardised_draws(model, seed=1)
    return draws


def test_distance_of_weight_and_bias_together_is_half_normal(noise):
    assert noise.shape == (COUNT, 35)
    assert stats.kstest(noise.norm(dim=1).numpy(), stats.halfnorm.cdf).pvalue > 0.01


def test_direction_is_uniform(noise):
    direction = noise / noise.norm(dim=1, keepdim=True)
    # One coordinate u of a uniform direction in D dimensions: (u + 1) / 2 ~ Beta((D−1)/2, (D−1)/2).
    marginal = stats.beta(17, 17)
    for coordinate in (0, 17, 34):
        sample = (direction[:, coordinate].numpy() + 1) / 2
        assert stats.kstest(sample, marginal.cdf).pvalue > 0.01


def test_layers_have_distances_of_their_own():
    model = Radial(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))).double()
    distances = [noise.norm(dim=1) for noise in standardised_draws(model, seed=2)]
    correlation = torch.corrcoef(torch.stack(distances))[0, 1]
    assert abs(correlation) < 4 / COUNT**0.5


@pytest.mark.parametrize(("inputs", "size"), [(1, 2), (2, 3)])
def test_divergence_agrees_with_monte_carlo_over_the_explicit_density(inputs, size):
    torch.manual_seed(inputs)
    model = Radial(nn.Linear(inputs, 1), prior_std=0.8).double()
    for parameter in model.rho.parameters():
        nn.init.uniform_(parameter, -1.0, 1.0)
    (layer,) = model.layer_posteriors()
    mean = torch.cat([m.flatten() for m in layer.mean]).detach()
    scale = torch.cat([s.flatten() for s in layer.scale]).detach()
    assert mean.numel() == size

    rng = torch.Generator().manual_seed(3)
    draws = 400_000
    direction = torch.randn(draws, size, generator=rng, dtype=torch.float64)
    direction /= direction.norm(dim=1, keepdim=True)
    distance = torch.randn(draws, generator=rng, dtype=torch.float64).abs()
    w = mean + scale * direction * distance[:, None]
    # A half-normal radius spread over a circle (2πr) or a sphere (4πr²), then stretched by σ.
    around = {2: 2 * math.pi * distance, 3: 4 * math.pi * distance**2}[size]
    half_normal = math.log(2) + Normal(0.0, 1.0).log_prob(distance)
    log_q = half_normal - around.log() - scale.log().sum()
    log_p = Normal(0.0, 0.8).log_prob(w).sum(1)
    difference = log_q - log_p
    error = difference.std() / draws**0.5
    assert abs(difference.mean() - model.weight_kl()) < 4 * error
    assert error < 0.01


def test_divergence_in_one_dimension_is_the_gaussian_one():
    model = Radial(nn.Linear(1, 1, bias=False), rho=0.2, prior_std=0.5).double()
    (layer,) = model.layer_posteriors()
    expected = torch.distributions.kl_divergence(
        Normal(layer.mean[0], layer.scale[0]), Normal(0.0, 0.5)
    )
    torch.testing.assert_close(model.weight_kl(), expected.sum())


def test_divergence_of_layers_adds_up():
    torch.manual_seed(4)
    first, second = nn.Linear(2, 3), nn.Linear(3, 2)
    together = Radial(nn.Sequential(first, second)).weight_kl()
    torch.testing.assert_close(together, Radial(first).weight_kl() + Radial(second).weight_kl())


def test_divergence_of_a_large_layer_is_accurate_in_single_precision():
    torch.manual_seed(5)
    model = Radial(nn.Linear(1000, 1000))
    single = model.weight_kl().item()
    assert single == pytest.approx(model.double().weight_kl().item(), rel=1e-5)
