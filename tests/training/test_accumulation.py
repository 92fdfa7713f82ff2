"""Accumulated batches make the step of one large batch; gradients are clipped as torch does."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import felbo

from .small import data, elbo, fit, network, normalised, refused, weights
from .test_prior_strength import weights_of_kl


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.5)


def loader(batch_size, size=50):
    return DataLoader(TensorDataset(*data(size)), batch_size)


OBJECTIVES = {
    "likelihood": felbo.NegativeLogLikelihood,
    "on the batch": elbo,
    "on a grid": lambda: elbo(
        measurement=felbo.measurement.Grid([(-3, 3), (-3, 3)], step=1.0), kl_weight=0.5
    ),
}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize(
    ("small", "times", "size"), [(8, 4, 64), (8, 4, 50), (7, 3, 40), (8, 9, 50)]
)
def test_accumulated_batches_are_one_large_batch(name, small, times, size):
    """Also where the last group has fewer batches, and its last batch fewer items."""
    model = felbo.Ensemble(network, members=3)
    twin = copy.deepcopy(model)
    objective = OBJECTIVES[name]
    options = {"optimizer": sgd, "epochs": 3}
    found = fit(model, loader(small, size), objective(), accumulate=times, **options)
    expected = fit(twin, loader(small * times, size), objective(), **options)
    torch.testing.assert_close(weights(model), weights(twin), rtol=1e-5, atol=1e-6)
    assert found.total == pytest.approx(expected.total, rel=1e-5)
    assert found.kl == pytest.approx(expected.kl, rel=1e-5)


def test_tensors_accumulate_too():
    model, steps = felbo.MAP(network()), []

    def counting(parameters):
        optimizer = sgd(parameters)
        optimizer.register_step_post_hook(lambda *_: steps.append(1))
        return optimizer

    fit(model, data(), batch_size=8, accumulate=3, optimizer=counting, epochs=2)
    assert len(steps) == 2 * 3  # seven batches are groups of 3, 3 and 1


def test_the_prior_has_the_weight_of_an_optimiser_step():
    assert weights_of_kl(data(), batch_size=8, accumulate=4) == pytest.approx([1 / 32] * 21, 1e-3)
    # No more items than there are.
    assert weights_of_kl(data(), batch_size=16, accumulate=9) == pytest.approx([1 / 50] * 12, 1e-3)
    unknown = DataLoader(TensorDataset(*data()), batch_sampler=[[0, 1], [2, 3, 4]])
    refused(felbo.MAP(network()), unknown, ValueError, "batch_size=2 ", accumulate=2)
    given = weights_of_kl(unknown, elbo(batch_size=5), accumulate=2)
    assert given == pytest.approx([1 / 5] * 6, rel=1e-3)


def clipped(model, norm):
    optimizer, objective = sgd(model.parameters()), elbo()
    norms = []
    for _ in range(3):
        optimizer.zero_grad()
        objective(model, *data()).total.backward()
        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), norm)))
        optimizer.step()
    return norms


@pytest.mark.parametrize("accumulate", [1, 2])
def test_gradients_are_clipped_as_by_torch(accumulate):
    model = felbo.MAP(network())
    by_hand, free = copy.deepcopy(model), copy.deepcopy(model)
    source = loader(25) if accumulate == 2 else loader(50)
    fit(model, source, clip_norm=0.05, optimizer=sgd, accumulate=accumulate)
    assert min(clipped(by_hand, 0.05)) > 0.05  # every step was clipped
    torch.testing.assert_close(weights(model), weights(by_hand), rtol=1e-5, atol=1e-6)
    fit(free, source, optimizer=sgd, accumulate=accumulate)
    assert not torch.allclose(weights(model), weights(free), atol=1e-3)


def test_small_gradients_are_not_changed():
    model = felbo.MAP(network())
    free = copy.deepcopy(model)
    fit(model, data(), clip_norm=1e3, optimizer=sgd)
    fit(free, data(), optimizer=sgd)
    torch.testing.assert_close(weights(model), weights(free), rtol=1e-6, atol=1e-7)


def test_fabric_clips_as_well():
    from lightning_fabric import Fabric

    model = felbo.MAP(network())
    by_hand = copy.deepcopy(model).double()
    fabric = Fabric(accelerator="cpu", devices=1, precision="64-true")
    fit(model, data(), clip_norm=0.05, optimizer=sgd, fabric=fabric)
    optimizer, objective, (x, y) = sgd(by_hand.parameters()), elbo(), data()
    for _ in range(3):
        optimizer.zero_grad()
        objective(by_hand, x.double(), y).total.backward()
        nn.utils.clip_grad_norm_(by_hand.parameters(), 0.05)
        optimizer.step()
    torch.testing.assert_close(weights(model), weights(by_hand))


def test_a_gradient_that_is_not_finite_stops_before_the_weights():
    model = felbo.MAP(normalised())

    def steep(m, x, y):
        loss = m(x).square().sum().sub(m(x).square().sum().detach()).abs().sqrt()
        return felbo.Loss(loss, loss, loss)

    refused(model, data(), FloatingPointError, "gradient's norm became", steep, clip_norm=1.0)


def test_impossible_settings_are_refused():
    model = felbo.MAP(network())
    refused(model, data(), ValueError, "accumulate must be a whole number", accumulate=0)
    for norm in (0.0, -1.0, float("nan"), float("inf")):
        refused(model, data(), ValueError, "clip_norm must be positive", clip_norm=norm)
