"""Links from outputs to concentrations, exact values, safety and the contract of a model."""

import math

import pytest
import torch
from torch import nn

from felbo.models import MAP, ConcentrationNetwork
from felbo.models.concentration import concentration_of
from felbo.networks import mlp


def test_exp_link_is_exactly_exp_in_the_working_range():
    model = ConcentrationNetwork(nn.Identity())
    logits = torch.linspace(-10, 10, 41, dtype=torch.float64).reshape(1, -1)
    torch.testing.assert_close(model.concentration(logits), logits.exp(), rtol=1e-14, atol=0)


def test_exp_link_has_logarithmic_tails():
    model = ConcentrationNetwork(nn.Identity())
    found = model.log_concentration(torch.tensor([[11.0, -11.0, 500.0, -500.0]]))
    tail = 10 + math.log(491.0)
    knee = 10 + math.log(2.0)
    torch.testing.assert_close(found, torch.tensor([[knee, -knee, tail, -tail]]))


def test_exp_link_is_smooth_at_the_knee_and_its_gradient_never_dies():
    model = ConcentrationNetwork(nn.Identity())
    logits = torch.tensor([[9.999, 10.001, -10.001, 500.0, -500.0]], requires_grad=True)
    model.log_concentration(logits).sum().backward()
    expected = torch.tensor([[1.0, 1 / 1.001, 1 / 1.001, 1 / 491, 1 / 491]])
    torch.testing.assert_close(logits.grad, expected)


def test_relu_link_adds_one():
    model = ConcentrationNetwork(nn.Identity(), link="relu")
    found = model.concentration(torch.tensor([[-500.0, 0.0, 2.5, 500.0]]))
    torch.testing.assert_close(found, torch.tensor([[1.0, 1.0, 3.5, 501.0]]))


def test_as_a_stochastic_classifier_it_predicts_the_mean():
    torch.manual_seed(0)
    model = ConcentrationNetwork(mlp(2, (8,), 3))
    x = torch.randn(5, 2)
    alpha = model.concentration(x)
    draws = model(x, 4)
    assert draws.shape == (4, 5, 3)
    expected = alpha / alpha.sum(-1, keepdim=True)
    torch.testing.assert_close(draws.softmax(-1), expected.expand(4, 5, 3))
    assert model(x).shape == model.eval()(x).shape == (1, 5, 3)


def test_refuses_an_unknown_link():
    with pytest.raises(ValueError, match=r"'exp' or 'relu', got 'softplus'"):
        ConcentrationNetwork(nn.Identity(), link="softplus")


def test_concentration_of_sees_through_wrappers_and_refuses_other_models():
    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module
            self.calls = 0

        def forward(self, *args):
            self.calls += 1
            return self.module(*args)

    model = ConcentrationNetwork(nn.Identity())
    wrapper = Wrapper(model)
    found = concentration_of(wrapper, torch.zeros(1, 2))
    assert found.dtype == torch.float64
    assert found.tolist() == [[1.0, 1.0]]
    assert wrapper.calls == 1
    with pytest.raises(TypeError, match=r"got MAP: wrap .*ConcentrationNetwork"):
        concentration_of(MAP(nn.Identity()), torch.zeros(1, 2))
