"""`felbo.train`: a loop of one's own around the epochs of a training."""

import copy
import inspect

import pytest
import torch

import felbo

from .small import data, elbo, fit, modes, network, normalised, state, weights


def train(model, **options):
    return felbo.train(model, elbo(), data(), **{"epochs": 3, "batch_size": 16, **options})


def test_it_trains_as_fit_does():
    model = felbo.MCDropout(normalised())
    twin = copy.deepcopy(model)
    options = {"batch_size": 16, "seed": 4, "validation": data(70)}
    epochs = list(train(model, **options))
    assert epochs == fit(twin, data(), **options).epochs
    assert torch.equal(weights(model), weights(twin))


def test_fit_has_its_arguments_and_defaults():
    own = dict(inspect.signature(felbo.fit).parameters)
    assert [own.pop(name).default for name in ("progress", "on_epoch")] == [True, None]
    assert own == dict(inspect.signature(felbo.train).parameters)


def test_arguments_are_checked_before_the_first_epoch_is_asked_for():
    with pytest.raises(ValueError, match="epochs must be a whole number of at least 1"):
        train(felbo.MAP(network()), epochs=0)
    with pytest.raises(TypeError, match="optimizer must be"):
        train(felbo.MAP(network()), optimizer="adam")


@pytest.mark.parametrize("training", [True, False])
def test_the_body_of_the_loop_leaves_no_trace(training):
    """It sees the model in evaluation mode; its random numbers and batches are its own."""
    model = felbo.MCDropout(normalised()).train(training)
    twin, objective = copy.deepcopy(model), elbo()
    before = modes(model)
    for _ in felbo.train(model, objective, data(), epochs=3, batch_size=16, seed=1):
        assert not any(modes(model).values())
        torch.rand(17)
        objective(model, *data(200)).total.backward()
        model.train()
    assert modes(model) == before
    fit(twin, data(), batch_size=16, seed=1)
    for name, value in state(twin).items():
        assert torch.equal(value, model.state_dict()[name])


def test_break_ends_it_and_every_module_has_its_mode():
    model = felbo.MAP(normalised())
    model.network[1].eval()
    before, generator = modes(model), torch.get_rng_state()
    for epoch in train(model, epochs=100, seed=0):
        if epoch.number == 1:
            break
    assert modes(model) == before
    assert torch.equal(torch.get_rng_state(), generator)
    hooks = [part._forward_hooks or part._forward_pre_hooks for part in model.modules()]
    assert not any(hooks)


def test_break_gives_the_best_weights_with_patience():
    model, states = felbo.MAP(network()), []
    x, y = data(70)
    options = {"validation": (x, 1 - y), "patience": 9, "learning_rate": 0.05}
    for epoch in train(model, epochs=9, **options):  # wrong labels: the first epoch is the best
        states.append(state(model))
        if epoch.number == 3:
            break
    assert torch.equal(model.network[1].weight, states[0]["network.1.weight"])
    assert not torch.equal(states[0]["network.1.weight"], states[3]["network.1.weight"])


def test_two_trainings_may_be_interleaved():
    models = [felbo.MCDropout(network()) for _ in range(2)]
    twins = copy.deepcopy(models)
    for _ in zip(*(train(model, seed=seed) for seed, model in enumerate(models)), strict=True):
        pass
    for seed, twin in enumerate(twins):
        fit(twin, data(), batch_size=16, seed=seed)
        assert torch.equal(weights(twin), weights(models[seed]))


def test_a_learning_rate_changed_by_hand_counts():
    model = felbo.MAP(network())
    made = torch.optim.SGD(model.parameters(), lr=0.1)
    rates = []
    for epoch in train(model, optimizer=made):
        rates.append(epoch.learning_rate)
        made.param_groups[0]["lr"] /= 10
    assert rates == pytest.approx([0.1, 0.01, 0.001])
