"""How far the start and one step from it are from the root."""

import pytest
import torch

from felbo.dirichlet._precision import START_ERROR, _Equation


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
def test_one_exact_step_from_the_start_is_enough_for_float32(classes, kind):
    torch.manual_seed(classes)
    mean = hostile_means(2000, classes, kind)
    spread = 10 ** (12 * torch.rand(2000, 1, dtype=torch.float64) - 8)
    equation = _Equation(mean, spread, 1e-6, 1e12, positive=True)
    start = equation.start()
    first = equation.step(start.clone(), exact=True)
    root = first
    for _ in range(6):
        root = equation.step(root.clone(), exact=True)
    assert ((start - root).abs() <= START_ERROR * root).all()
    assert ((first - root).abs() <= 3e-5 * root).all()
