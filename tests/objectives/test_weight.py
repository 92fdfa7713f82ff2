"""The weight of the KL: what B is, and when a number hurts."""

import warnings

import pytest
import torch

from felbo import MAP, FunctionSpaceELBO, Term, UniformPrior, measurement
from felbo.networks import mlp


def case(size=64):
    return MAP(mlp(2, (5,), 3).double()), torch.randn(size, 2).double(), torch.arange(size) % 3


def weight_of(loss):
    return ((loss.total - loss.nll) / loss.kl).item()


def test_a_smaller_last_batch_has_the_weight_of_a_full_one():
    model, x, y = case()
    objective = FunctionSpaceELBO(UniformPrior(3), 1000)
    sizes = (16, 64, 64, 1)
    weights = [weight_of(objective(model, x[:size], y[:size])) for size in sizes]
    assert weights == pytest.approx([1 / 16, 1 / 64, 1 / 64, 1 / 64])


def test_a_loop_may_say_the_size_before_the_first_step():
    model, x, y = case()
    objective = FunctionSpaceELBO(UniformPrior(3), 1000)
    objective.begin(64)
    assert weight_of(objective(model, x[:1], y[:1])) == pytest.approx(1 / 64)
    objective.begin(16)  # another training
    assert weight_of(objective(model, x[:1], y[:1])) == pytest.approx(1 / 16)


def test_an_explicit_size_holds_whatever_the_batches_are():
    model, x, y = case()
    objective = FunctionSpaceELBO(UniformPrior(3), 1000, batch_size=128)
    objective.begin(16)
    weights = [weight_of(objective(model, x[:size], y[:size])) for size in (64, 1)]
    assert weights == pytest.approx([1 / 128, 1 / 128])


def test_accumulated_gradients_are_those_of_one_large_batch():
    model, x, y = case()
    objective = FunctionSpaceELBO(UniformPrior(3), 1000, batch_size=64)
    objective(model, x, y).total.backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    for part, labels in zip(x.split(16), y.split(16), strict=True):
        (objective(model, part, labels).total / 4).backward()
    for parameter, whole in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, whole)


def test_the_size_is_that_of_the_batch_and_not_of_the_points():
    model, x, y = case(6)
    enriched = measurement.Mixture(measurement.Batch(), torch.neg)
    assert weight_of(FunctionSpaceELBO(UniformPrior(3), 50, enriched)(model, x, y)) == (
        pytest.approx(1 / 6)
    )


def test_a_large_weight_on_the_batch_is_warned_of_once():
    """f_y ≤ (1 + w) / (1 + K w): one half for w = 1 and K = 3."""
    model, x, y = case(6)
    objective = FunctionSpaceELBO(UniformPrior(3), 50, kl_weight=1.0)
    with pytest.warns(UserWarning, match=r"a weight of 1: .*3 classes .* beyond 0\.50"):
        objective(model, x, y)
    terms = [Term(measurement.Batch(), 10.0)]
    with pytest.warns(UserWarning, match=r"beyond 0\.50"):
        FunctionSpaceELBO(UniformPrior(3), 50, terms, kl_weight=0.1)(model, x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objective(model, x, y)
        FunctionSpaceELBO(UniformPrior(3), 50)(model, x[:1], y[:1])
        FunctionSpaceELBO(UniformPrior(3), 50, kl_weight=0.01)(model, x, y)
        FunctionSpaceELBO(UniformPrior(3), 50, torch.neg, kl_weight=1.0)(model, x, y)


def test_many_classes_make_one_over_the_batch_size_a_large_weight():
    """A thousand classes and B = 256: no prediction beyond 0.2, with the default weight."""
    logits = torch.zeros(1, 256, 1000, requires_grad=True)
    objective = FunctionSpaceELBO(UniformPrior(1000), 10**6)
    with pytest.warns(UserWarning, match=r"beyond 0\.20 .*such as 0\.0001"):
        assert objective.weight_of_kl(logits) == 1 / 256
    smaller = FunctionSpaceELBO(UniformPrior(1000), 10**6, kl_weight=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smaller.weight_of_kl(logits)


def test_a_larger_batch_in_validation_does_not_weaken_the_prior():
    model, x, y = case()
    objective = FunctionSpaceELBO(UniformPrior(3), 1000)
    objective(model, x[:16], y[:16])
    with torch.no_grad():
        objective(model, x, y)
    assert weight_of(objective(model, x[:16], y[:16])) == pytest.approx(1 / 16)
