"""How far the start and one step from it are from the root."""

import pytest
import torch
from felbo.dirichlet._precision import _Equation, _two_steps, solve, with_total


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
def test_two_steps_are_enough(classes, kind):
    torch.manual_seed(classes)
    points = with_total(hostile_means(2000, classes, kind))
    spread = 10 ** (12 * torch.rand(2000, 1, dtype=torch.float64) - 8)
    equation = _Equation(points, spread, 1e-6, 1e12, positive=True)
    start = equation.start()
    first = root = equation.step(start.clone(), exact=True)
    for _ in range(6):
        root = equation.step(root.clone(), exact=True)
    assert ((start - root).abs() <= 0.01 * root).all()
    assert ((first - root).abs() <= 3e-5 * root).all()
    # The short way: without rounding, and with it.
    found = _two_steps(points, spread, 1e-6, 1e12)
    assert ((found - root).abs() <= 3e-5 * root).all()
    single = _two_steps(points.float(), spread.float(), 1e-6, 1e12).double()
    assert ((single - root).abs() <= 5e-5 * root).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ends_of_the_bracket(dtype):
    """A D of zero, or rounded below it, is that of draws that agree; a huge one of the others."""
    points = with_total(torch.full((5, 4), 0.25, dtype=dtype))
    spread = torch.tensor([[0.0], [-1e-7], [1e-12], [1e8], [0.01]], dtype=dtype)
    found = solve(points, spread, 4.0, 1e3, 1e-4).squeeze(-1)
    assert found[:4].tolist() == [1e3, 1e3, 1e3, 4.0]
    assert 100 < float(found[4]) < 200
