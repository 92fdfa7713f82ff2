"""How far the solver is from the root after how many steps."""

import warnings

import pytest
import torch

from felbo.dirichlet.precision import solve


def hostile_means(items, classes, kind):
    shape = (items, classes)
    if kind == "gamma":
        shapes = 10 ** (6 * torch.rand(items, 1, dtype=torch.float64) - 4)
        values = torch.distributions.Gamma(shapes.expand(shape), 1.0).sample()
    elif kind == "log-normal":
        spread = 10 ** (2.2 * torch.rand(items, 1, dtype=torch.float64) - 1)
        values = (spread * torch.randn(shape, dtype=torch.float64)).exp()
    else:
        # Some classes share all of the mass, the others are equally improbable.
        present = torch.arange(classes) < torch.randint(1, classes, (items, 1))
        rest = 10 ** (-12 * torch.rand(items, 1, dtype=torch.float64))
        values = torch.where(present, torch.rand(shape, dtype=torch.float64), rest)
    values = values.clamp(min=1e-30)
    return (1 - 1e-12) * values / values.sum(-1, keepdim=True) + 1e-12 / classes


@pytest.mark.parametrize("kind", ["gamma", "log-normal", "few"])
@pytest.mark.parametrize("classes", [2, 3, 10, 300])
def test_one_step_from_the_start_is_enough(classes, kind):
    mean = hostile_means(1000, classes, kind)
    spread = 10 ** (12 * torch.rand(1000, dtype=torch.float64) - 8)
    root = solve(mean, spread, 1e-6, 1e12, tolerance=1e-13).precision
    first = solve(mean, spread, 1e-6, 1e12, tolerance=1.0)
    assert first.iterations.max() == 1
    assert ((first.precision - root).abs() <= 3e-5 * root).all()
    # The first step is the distance of the start: what float32 draws tolerate is never exceeded.
    usual = solve(mean, spread, 1e-6, 1e12, tolerance=1e-2)
    assert usual.converged.all()
    assert torch.equal(usual.precision, first.precision)


def test_ends_of_the_bracket():
    """A spread of zero is that of draws that agree, a huge one that of draws in the corners."""
    spread = torch.tensor([0.0, 1e-12, 1e8, torch.inf, 0.01, torch.nan], dtype=torch.float64)
    found = solve(torch.full((6, 4), 0.25, dtype=torch.float64), spread, 4.0, 1e3)
    assert found.precision[:4].tolist() == [1e3, 1e3, 4.0, 4.0]
    assert found.iterations[:4].tolist() == [0, 0, 0, 0]
    assert 100 < found.precision[4] < 200
    assert found.precision[5].isnan()
    assert found.converged.tolist() == [True] * 5 + [False]


def test_under_vmap_it_takes_the_same_steps():
    mean, spread = hostile_means(6, 3, "gamma").view(2, 3, 3), torch.rand(2, 3).double()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as that an operation has no batching rule
        found = torch.func.vmap(lambda m, d: solve(m, d, 3.0, 1e6, 1e-4))(mean, spread)
    for ours, expected in zip(found, solve(mean, spread, 3.0, 1e6, 1e-4), strict=True):
        torch.testing.assert_close(ours, expected)
